"""Reports built by hand, so that an emitter is tested on what a report says and on nothing else.

The figures agree with one another: 3,000 requests of which 246 missed is 91.8 % good.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from msgspec.structs import replace

from gate.model import (
    Attribution,
    Capacity,
    Check,
    Counts,
    ErrorReport,
    Goodput,
    InputFile,
    Kind,
    LengthBucket,
    Level,
    Load,
    LoadReport,
    MetricStats,
    Misses,
    Objective,
    Percentiles,
    Policy,
    PolicyName,
    Provenance,
    Report,
    RunReport,
    TtftParts,
    Verdict,
    Waiver,
    WorstRequest,
    WorstRun,
)
from gate.units import SECONDS, SHARE

HOSTILE = "a|b`x`@team <!-- slo-gate --> <script> ::error::x %0A [l](http://e) ![i](x)"
SHA = "5f2c9a7e41d0b8c36a95e8f1027d4b6c8e3f9a1d2c4b5e6f708192a3b4c5d6e7"
POLICY = Policy(
    name="chat-70b",
    path="slo.yaml",
    sha256="0b1c2d3e4f5061728394a5b6c7d8e9f00b1c2d3e4f5061728394a5b6c7d8e9f0",
    objectives=(
        Objective("goodput", Kind.GOODPUT, Level.BLOCK, "goodput", "share", ">=", 0.99, SHARE, 0.99, line=18),
    ),
    waivers=(Waiver("tpot.p99", date(2027, 1, 31), "serving", "kernel fix in flight", 30),),
)
METRICS = {
    "ttft_s": MetricStats(
        2970, 0.2124, 0.5482, 0.9121, 0.2609, 0.0911, 2.104,
        {"p50": 0.2124, "p90": 0.5483, "p99": 0.9098, "method": "numpy linear over completed requests"},
    ),
    "tpot_s": MetricStats(2958, 0.0142, 0.0171, 0.0219, 0.0146, 0.0098, 0.0412, None),
    "itl_s": None,
    "e2e_s": MetricStats(2970, 1.604, 2.211, 2.874, 1.652, 0.334, 4.918, None),
}  # fmt: skip
GOODPUT_BAD = Goodput(0.918, (0.9058, 0.9291), 2754, 3000, 18.36, 2731.0, Misses(175, 12, 20, 9, 30))
GOODPUT_GOOD = Goodput(0.9973, (0.9931, 0.9992), 2992, 3000, 19.95, 2968.0, Misses(5, 1, 2, 0, 0))
ATTRIBUTION = Attribution(
    by_input_length=(
        LengthBucket(61, 402, 1500, 1441, Misses(30, 6, 8, 0, 15), Percentiles(0.1511, 0.31, 0.62), None),
        LengthBucket(403, 1733, 1500, 1313, Misses(145, 6, 12, 9, 15), Percentiles(0.32, 0.6, 1.04), None),
    ),
    by_output_length=(
        LengthBucket(2, 148, 1490, 1399, Misses(81, 2, 4, 4, 0), None, Percentiles(1.021, 1.6, 1.9)),
        LengthBucket(149, 149, 1480, 1355, Misses(94, 10, 16, 5, 0), None, Percentiles(1.912, 2.6, 3.1)),
    ),
    ttft_parts=(
        TtftParts("completed", 2970, (0.0402, 0.61), (0.1204, 0.52), (0.1405, 0.41)),
        TtftParts("missed ttft", 184, None, (0.6604, 0.95), (0.2502, 0.61)),
    ),
    worst_runs=(
        WorstRun("results/run-01.json", 2612, 2800, 0.764),
        WorstRun("results/run-02.json", 142, 200, 0.236),
    ),
    worst_requests=(
        WorstRequest(
            "results/run-01.json", 1711, None, 2.104, 0.0161, 4.918, 1733, 176, ("ttft", "e2e"), 2.63
        ),
        WorstRequest("results/run-01.json", 12, "req-12", 0.101, 0.0412, 2.31, 80, 56, ("tpot",), 1.648),
    ),
)
COUNTS = Counts(3000, 2970, 30, 4, 64)


def make_check(**overrides: Any) -> Check:
    """P99 TPOT, passed, unless told otherwise."""
    check = Check(
        id="tpot.p99",
        metric="tpot",
        statistic="p99",
        level=Level.BLOCK,
        operator="<=",
        bound=0.025,
        unit=SECONDS,
        verdict=Verdict.PASS,
        reason="8 of 2,988 requests missed: at least 99.31% met it (97.5% confidence, from 10 runs); "
        "99% is needed.",
        expected="P99 TPOT <= 25 ms",
        observed=0.0219,
        observed_text="21.9 ms",
        share=0.9973,
        interval=(0.9931, 0.9992),
        interval_of="share",
        n=2988,
        misses=8,
        n_eff=1480.2,
        deff=2.02,
        headroom=1.1416,
        of_bound=0.876,
        policy_line=14,
        summary="P99 TPOT 21.9 ms <= 25 ms: 8 of 2,988 missed",
    )
    return replace(check, **overrides)


GOODPUT_PASS = make_check(
    id="goodput", metric="goodput", statistic="share", operator=">=", bound=0.99, unit=SHARE,
    reason="8 of 3,000 requests missed: at least 99.31% met it (97.5% confidence, from 10 runs); "
    "99% is needed.",
    expected="goodput >= 99%", observed=0.9973, observed_text="99.73%", n=3000,
    headroom=None, of_bound=None, policy_line=18, summary="goodput 99.73% >= 99%: 8 of 3,000 missed",
)  # fmt: skip
GOODPUT_FAIL = replace(
    GOODPUT_PASS,
    verdict=Verdict.FAIL,
    reason="246 of 3,000 requests missed: at most 92.91% met it (98.33% confidence, from 10 runs); "
    "99% is needed.",
    observed=0.918, observed_text="91.8%", share=0.918, interval=(0.9058, 0.9291), misses=246, blocks=True,
    summary="goodput 91.8% < 99%: 246 of 3,000 missed, 30 may",
)  # fmt: skip
TTFT_FAIL = make_check(
    id="ttft.p99", metric="ttft", bound=0.8, verdict=Verdict.FAIL,
    reason="96 of 3,000 requests missed: at most 97.53% met it (98.33% confidence, from 10 runs); "
    "99% is needed.",
    expected="P99 TTFT <= 800 ms", observed=0.9484, observed_text="948.4 ms", share=0.968,
    interval=(0.9591, 0.9753), n=3000, misses=96, headroom=None, policy_line=12, blocks=True,
    of_bound=1.1855, of_attempted=True,
    summary="P99 TTFT 948.4 ms > 800 ms: 96 of 3,000 missed, 30 may",
)  # fmt: skip
TTFT_WARN = make_check(
    id="ttft.p90", metric="ttft", statistic="p90", level=Level.WARN, bound=0.5, verdict=Verdict.FAIL,
    reason="357 of 3,000 requests missed: at most 89.42% met it (98.33% confidence, from 10 runs); "
    "90% is needed.",
    expected="P90 TTFT <= 500 ms", observed=0.5521, observed_text="552.1 ms", share=0.881,
    interval=(0.8671, 0.8942), n=3000, misses=357, headroom=None, policy_line=12,
    of_bound=1.1042, of_attempted=True,
    summary="P90 TTFT 552.1 ms > 500 ms: 357 of 3,000 missed, 300 may",
)  # fmt: skip
E2E_PASS = make_check(
    id="e2e.p99[output_tokens<300]", metric="e2e", bound=3.0,
    reason="14 of 2,871 requests missed: at least 99.11% met it (97.5% confidence, from 10 runs); "
    "99% is needed.",
    expected="P99 E2E <= 3 s where output_tokens<300", observed=2.874, observed_text="2.874 s", share=0.9951,
    interval=(0.9911, 0.9976), n=2871, misses=14, headroom=1.0438, of_bound=None, policy_line=15,
    summary="P99 E2E for output_tokens<300 2.874 s <= 3 s: 14 of 2,871 missed",
)  # fmt: skip
ERRORS_PASS = make_check(
    id="error_rate", metric="error_rate", statistic="share", bound=0.01, unit=SHARE,
    reason="30 of 3,000 failed.", expected="error rate <= 1%", observed=0.01,
    observed_text="1%", share=None, interval=None, interval_of=None, n=3000, misses=30, headroom=1.0,
    of_bound=None, policy_line=22, summary="error rate 1% <= 1%: 30 of 3,000 failed",
)  # fmt: skip
EVIDENCE = make_check(
    id="workload.model", metric="workload.model", statistic="", operator="", bound=None, unit="",
    verdict=Verdict.INCONCLUSIVE, cause="evidence", blocks=True, share=None, interval=None,
    interval_of=None, n=None, misses=None, n_eff=None, deff=None, headroom=None, of_bound=None, policy_line=7,
    reason='The file names no model. State it with --set model="meta-llama/Llama-3.3-70B-Instruct".',
    expected="model meta-llama/Llama-3.3-70B-Instruct", observed=None, observed_text="not stated",
    summary="no file says the model", remedy="state it: --set model=...",
)  # fmt: skip
UNDECIDED = replace(
    GOODPUT_PASS,
    verdict=Verdict.INCONCLUSIVE, cause="undecided", blocks=True, more_requests=1500,
    reason="21 of 3,000 requests missed; the interval 98.4% to 99.8% includes 99%, so it is neither shown "
    "nor ruled out",
    observed=0.993, observed_text="99.3%", share=0.993, interval=(0.984, 0.998), misses=21,
    summary="goodput >= 99% not yet proven: 21 of 3,000 missed; needs 1 to 3 more runs of 3,064 requests",
    more_range=(900, 6300),
)  # fmt: skip
REGRESSION = make_check(
    id="regression.ttft.p99", metric="ttft", bound=0.1, unit="ratio", verdict=Verdict.SKIPPED,
    reason="There is no baseline: give one with --baseline.",
    expected="P99 TTFT at most 10% above the baseline",
    observed=None, observed_text="", share=None, interval=None, interval_of=None, n=None, misses=None,
    n_eff=None, deff=None, headroom=None, of_bound=None, policy_line=25, summary="",
)  # fmt: skip


def make_run(**overrides: Any) -> RunReport:
    """One run of 3,000 requests at the target."""
    run = RunReport(
        input="results/run-01.json", format="vllm detailed", tool="vllm", tool_version="0.11.0",
        model="meta-llama/Llama-3.3-70B-Instruct", hardware="8xH100", session=None,
        load=Load(concurrency=64), evidence="requests", at_target=True, counts=COUNTS, duration_s=150.0,
        goodput=GOODPUT_GOOD, metrics=METRICS, notes=(),
    )  # fmt: skip
    return replace(run, **overrides)


def make_input(path: str = "results/run-01.json") -> InputFile:
    return InputFile(path, SHA, "vllm detailed", "vllm", "0.11.0")


def make_report(**overrides: Any) -> Report:
    """A pass, unless told otherwise."""
    report = Report(
        verdict=Verdict.PASS,
        exit_code=0,
        headline="PASS chat-70b: goodput 99.73% >= 99% (2992 of 3000, lower bound 99.31%)",
        next_action="",
        policy=POLICY,
        inputs=(make_input(),),
        runs=(make_run(),),
        checks=(make_check(), E2E_PASS, GOODPUT_PASS, ERRORS_PASS, REGRESSION),
        goodput=GOODPUT_GOOD,
        metrics=METRICS,
        notes=("4 requests were cancelled by the tool at the end of its run and are counted apart.",),
        provenance=Provenance(
            "vllm 0.11.0, meta-llama/Llama-3.3-70B-Instruct, 8xH100, concurrency 64, "
            "800 prompt and 150 output tokens on average, 1 run, 3,000 requests, 2027-01-12",
            "slo-gate check --policy slo.yaml results/run-01.json",
        ),
    )
    return replace(report, **overrides)


def passing() -> Report:
    return make_report()


def warning() -> Report:
    waived = make_check(
        verdict=Verdict.FAIL, observed=0.0263, observed_text="26.3 ms", share=0.981,
        interval=(0.974, 0.9866), misses=57, headroom=None,
        of_bound=1.052, of_attempted=True,
        reason="57 of 2,988 requests missed: at most 98.66% met it (98.33% confidence, from 10 runs); "
        "99% is needed.",
        waived="until 2027-01-31, serving: kernel fix in flight",
        summary="P99 TPOT 26.3 ms > 25 ms: 57 of 2,988 missed, 29 may; waived until 2027-01-31, "
        "serving: kernel fix in flight",
    )  # fmt: skip
    return make_report(
        verdict=Verdict.WARN,
        headline="WARN chat-70b: P90 TTFT 552.1 ms > 500 ms; tpot.p99 fails and is waived until 2027-01-31",
        next_action="Nothing blocks. Look at TTFT before the waiver of tpot.p99 ends.",
        checks=(TTFT_WARN, waived, E2E_PASS, GOODPUT_PASS, ERRORS_PASS),
    )


def failing() -> Report:
    return make_report(
        verdict=Verdict.FAIL,
        exit_code=1,
        headline="FAIL chat-70b (blocked): goodput 91.8% < 99% (2754 of 3000, upper bound 92.91%); "
        "TTFT alone causes 71% of misses",
        next_action="Bring TTFT under 800 ms for 175 requests that miss nothing else; whatif shows how far.",
        change="P99 TTFT +18.2% (11.4% to 25.4%) against main, 10 paired runs",
        runs=(make_run(goodput=GOODPUT_BAD),),
        goodput=GOODPUT_BAD,
        checks=(TTFT_WARN, TTFT_FAIL, make_check(), E2E_PASS, GOODPUT_FAIL, ERRORS_PASS, REGRESSION),
        attribution=ATTRIBUTION,
        measure_next="More runs: One run does not show how much runs differ; repeat the benchmark 4 more "
        "times with other seeds. Sensitivity to prompt length: the median TTFT grows from 151.1 ms "
        "to 320 ms.",
    )


def inconclusive() -> Report:
    return make_report(
        verdict=Verdict.INCONCLUSIVE,
        exit_code=4,
        headline="INCONCLUSIVE chat-70b (blocked, unproven): goodput 99.3% of 3000, interval 98.4% to 99.8% "
        "contains 99%; the file names no model",
        next_action="About 1500 more requests, 75 s at this rate, would decide goodput.",
        checks=(EVIDENCE, make_check(), UNDECIDED, ERRORS_PASS),
        goodput=Goodput(0.993, (0.984, 0.998), 2979, 3000, 19.86, 2954.0, Misses(14, 3, 4, 0, 0)),
    )


def failed_to_read() -> ErrorReport:
    return ErrorReport(
        exit_code=3,
        headline="ERROR slo-gate: results/run-01.json: the JSON ends in the middle",
        message="the JSON ends in the middle",
        where="results/run-01.json: $.ttfts[1711]",
        hint="run the benchmark again, or copy the file whole",
        policy=PolicyName(POLICY.name, POLICY.path, POLICY.profile),
    )


def sweep() -> Report:
    """Fourteen runs of four loads, no single one of which the policy's target selects."""
    runs = tuple(
        make_run(
            input=f"results/c{load}/run-{number:02}.json",
            load=Load(concurrency=load),
            at_target=False,
            tool_version=None,
        )
        for load in (16, 32, 64, 96)
        for number in range(1, 5 if load < 64 else 4)
    )
    unknown = Goodput(None, None, None, None, None, None, None)
    met = (Verdict.PASS, Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)
    points = tuple(
        LoadReport(
            Load(concurrency=load),
            False,
            size,
            Counts(size * 100, size * 100, 0),
            unknown,
            runs[0].metrics,
            verdict,
        )
        for (load, size), verdict in zip(((16, 4), (32, 4), (64, 3), (96, 3)), met, strict=True)
    )
    said = "at least concurrency 32; concurrency 64 undecided; concurrency 96 fails (ttft.p99)"
    return make_report(
        loads=points,
        capacity=Capacity(Load(concurrency=32), Load(concurrency=96), True, said),
        verdict=Verdict.INCONCLUSIVE,
        exit_code=4,
        headline="INCONCLUSIVE chat-70b (blocked, unproven): no run is at the target, concurrency 128",
        next_action="Run the benchmark at concurrency 128, or set workload.load in slo.yaml.",
        checks=(EVIDENCE,),
        inputs=tuple(make_input(run.input) for run in runs),
        runs=runs,
        goodput=unknown,
        metrics=dict.fromkeys(METRICS),
        notes=("Runs at concurrency 16, 32, 64 and 96 are shown below and not judged.",),
    )


def percentiles_only() -> Report:
    """An aggregate file: bounds instead of counts."""
    check = replace(
        UNDECIDED, misses=None, misses_range=(12, 210), interval=None, interval_of=None, cause="evidence",
        observed=None, observed_text="", share=None, n_eff=None, deff=None, more_requests=None,
        reason="between 93% and 99.6% of 3,000 requests met it; run the benchmark with --save-detailed",
        summary="goodput >= 99% not shown by percentiles alone: 12 to 210 of 3,000 missed", more_range=None,
        remedy="save per-request rows with --save-detailed",
    )  # fmt: skip
    return make_report(
        verdict=Verdict.INCONCLUSIVE,
        exit_code=0,
        report_only=True,
        headline="INCONCLUSIVE chat-70b (report only, unproven): percentiles alone give goodput 93% to 99.6%",
        next_action="Run the benchmark with --save-detailed.",
        checks=(check,),
        goodput=Goodput(None, None, None, 3000, None, None, None, (0.93, 0.996)),
    )


def hostile(text: str = HOSTILE) -> Report:
    """`text` in every place that a file, a policy or a command line fills."""
    check = replace(
        TTFT_FAIL, id=text, reason=text, expected=text, observed_text=text, waived=None, metric=text,
        summary=text, remedy=text,
    )  # fmt: skip
    waived = replace(check, waived=text)
    own = {"p50": text, "p99": 0.9, "method": text, text: text}
    metrics = {**METRICS, "ttft_s": replace(METRICS["ttft_s"], tool_reported=own)}
    policy = replace(POLICY, name=text, path=text, sha256=text, profile=text)
    return failing_with(text, policy, (check, waived, replace(check, verdict=Verdict.PASS)), metrics)


def failing_with(text: str, policy: Policy, checks: tuple[Check, ...], metrics: dict[str, Any]) -> Report:
    run = make_run(
        input=text, format=text, tool=text, tool_version=text, model=text, hardware=text, session=text,
        notes=(text,), metrics=metrics, failures={text: 1},
    )  # fmt: skip
    return make_report(
        verdict=Verdict.FAIL,
        exit_code=1,
        headline=f"FAIL {text}",
        next_action=text,
        change=text,
        policy=policy,
        inputs=(InputFile(text, text, text, text, text),),
        runs=(run, run),
        checks=checks,
        metrics=metrics,
        notes=(text, text),
        provenance=Provenance(text, text),
        attribution=replace(
            ATTRIBUTION,
            worst_runs=(WorstRun(text, 2, 3, 1.0),),
            worst_requests=tuple(
                replace(ATTRIBUTION.worst_requests[0], input=name, id=text) for name in (text, "b.json")
            ),
        ),
        measure_next=text,
    )


CASES = {
    "pass": passing,
    "warn": warning,
    "fail": failing,
    "inconclusive": inconclusive,
    "error": failed_to_read,
    "sweep": sweep,
    "percentiles": percentiles_only,
    "hostile": hostile,
}
