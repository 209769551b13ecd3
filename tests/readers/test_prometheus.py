"""Prometheus: windows hold exactly what the server's own log says, and what was lost is never green."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Buckets, Counts, Histogram, Load, Run, Verdict, Workload
from gate.readers import prometheus, runs_of_set
from gate.readers.source import Source
from tests.readers.scrapes import (
    BEGAN,
    CASES,
    SGLANG,
    SINGLE,
    TOKENS,
    VLLM,
    N,
    engine,
    gateway,
    range_answer,
    save,
)
from tests.runs import error_rate, goodput, latency, make_policy

COUNTER = "gateway_requests_total"
T0 = 1795961600
TODAY = date(2026, 11, 30)
# The 830 requests by LoadGen's log (sut_truth.jsonl), counted with numpy: TTFT by vLLM's first edges.
TTFT_WITHIN = {0.02: 40, 0.04: 438, 0.06: 722, 0.08: 807, 0.1: 823, 0.25: 830}
E2E_WITHIN = {0.3: 725, 0.5: 828, 0.8: 830}


def source(path: Path, counter: str | None = COUNTER) -> Source:
    return Source(path, path.name, attempted_counter=counter)


def read(*paths: Path, counter: str | None = COUNTER) -> list[Run]:
    return list(runs_of_set(prometheus, [source(path, counter) for path in paths]))


def case(name: str) -> list[Path]:
    return sorted(path for path in (CASES / name).iterdir() if path.name != "ORIGIN.md")


def buckets(run: Run, metric: str) -> Buckets:
    assert isinstance(run.evidence, Histogram)
    return run.evidence.buckets[metric]


def within(run: Run, metric: str) -> dict[float, int]:
    one = buckets(run, metric)
    return dict(zip(one.edges_s.tolist(), np.cumsum(one.counts).tolist(), strict=True))


def series(folder: Path, *texts: str, step: int = 180) -> list[Path]:
    return [save(folder, f"scrape-{T0 + step * k}.prom", text) for k, text in enumerate(texts)]


# ---- conformance --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "labels"), [(VLLM, TTFT_WITHIN), (SGLANG, {0.1: 823, 0.2: 830, 0.4: 830})])
def test_a_single_scrape_is_one_window_since_the_start(name: str, labels: Mapping[float, int]) -> None:
    (run,) = read(SINGLE / name, counter=None)
    assert run.counts == Counts(N, N, 0)
    assert run.load is None
    assert run.duration_s is None
    assert {edge: within(run, "ttft")[edge] for edge in labels} == labels
    assert any("since the server started" in note for note in run.notes)


@pytest.mark.parametrize("name", [VLLM, SGLANG])
def test_buckets_are_those_of_the_servers_own_log(shared: Path, name: str) -> None:
    (run,) = read(shared / "results" / "prometheus" / name)
    log = shared / "results" / "mlperf-loadgen-6.0.17" / "server_valid" / "sut_truth.jsonl"
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ttft, e2e, tokens = (
        np.array([row[key] for row in rows], float) for key in ("ttft_ns", "e2e_ns", "n_tokens")
    )
    truth = {"ttft": ttft / 1e9, "e2e": e2e / 1e9, "tpot": (e2e - ttft) / 1e9 / (tokens - 1)}
    for metric, values in truth.items():
        one = buckets(run, metric)
        expected = [(values <= edge).sum() for edge in one.edges_s]
        assert np.cumsum(one.counts).tolist() == expected
        mean = run.tool_reported[metric].mean
        assert mean == pytest.approx(values.mean(), rel=1e-9)


def test_two_scrapes_differ_by_what_happened_between_them() -> None:
    first, second = read(*case("typical"))
    for run in (first, second):
        assert run.counts == Counts(N, N, 0)
        assert {edge: within(run, "ttft")[edge] for edge in TTFT_WITHIN} == TTFT_WITHIN
        assert {edge: within(run, "e2e")[edge] for edge in E2E_WITHIN} == E2E_WITHIN
        assert run.total_output_tokens == TOKENS
        assert run.duration_s == 180
        assert run.date == "2026-11-29"
        assert run.model == "mock-model"
        assert run.load == Load(request_rate=N / 180, production=True)
        assert set(run.doubted) == {"itl"}  # these series hold no gaps
        assert run.tool_reported["ttft"].mean == pytest.approx(34.745821725 / N)


def test_means_and_histograms_name_the_edges_that_would_decide() -> None:
    run = read(*case("typical"))[0]
    assert isinstance(run.evidence, Histogram)
    # P99 of 830 is the 822nd: 807 are within 80 ms and 823 within 100 ms; 725 within 300, 828 within 500 ms.
    assert run.evidence.settled_by == (
        "a bound on a bucket edge (around P99: TTFT 80 ms or 100 ms, TPOT 10 ms, E2E 300 ms or 500 ms)"
    )


def test_a_range_query_of_two_replicas_is_ten_windows_of_their_sum() -> None:
    runs = read(*case("canary"))
    assert len(runs) == 10
    for run in runs:
        assert run.counts == Counts(3 * N, 3 * N, 0)
        assert {edge: within(run, "ttft")[edge] / 3 for edge in TTFT_WITHIN} == TTFT_WITHIN
        assert run.load == Load(request_rate=3 * N / 180, production=True)
    assert len({run.load for run in runs}) == 1  # one load, so that the windows pool as clusters


def test_replicas_with_other_edges_are_summed_on_the_edges_they_share(tmp_path: Path) -> None:
    odd = (
        engine(1, labels='instance="b",').replace('le="0.08"', 'le="0.07"').replace('le="0.06"', 'le="6e-2"')
    )
    both = range_answer({float(T0): engine(1, labels='instance="a",') + odd})
    (run,) = read(save(tmp_path, "range.json", both))
    assert not {0.07, 0.08} & within(run, "ttft").keys()
    assert within(run, "ttft")[0.06] == 2 * 722
    assert within(run, "ttft")[0.1] == 2 * 823


def test_a_compressed_answer_and_a_plain_one_are_the_same(tmp_path: Path) -> None:
    (packed,) = case("canary")
    plain = tmp_path / "range.json"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    assert [run.counts for run in read(plain)] == [run.counts for run in read(packed)]


# ---- who is missing -----------------------------------------------------------------------


def test_aborts_and_answers_the_engine_never_saw_are_failures() -> None:
    (run,) = read(*case("failures"))
    # 830 finished, 10 of them aborted; the gateway counts 870.
    assert run.counts == Counts(870, 820, 50)
    assert any(note.startswith("50 failed: 10 aborted or failed in the engine") for note in run.notes)


def test_without_the_gateways_counter_nothing_is_judged() -> None:
    for run in read(*case("typical"), counter=None):
        assert set(run.doubted) == {"ttft", "tpot", "itl", "e2e", "error_rate"}
        assert "evidence: {attempted: METRIC_NAME}" in run.doubted["ttft"]


def test_a_counter_that_is_not_there_is_named() -> None:
    for run in read(*case("typical"), counter="no_such_total"):
        assert "hold no no_such_total" in run.doubted["error_rate"]


def test_a_counter_of_something_smaller_is_refused() -> None:
    # The route of the 429s alone: 0 of 830.
    for run in read(*case("typical"), counter=f'{COUNTER}{{code="429"}}'):
        assert "counts 0 requests where the engine finished 1660" in run.doubted["ttft"]


@pytest.mark.parametrize(
    "counter", [f'{COUNTER}{{route="/v1/completions"}}', "gateway_requests", f'{COUNTER}{{code="200",}}']
)
def test_a_counter_may_be_named_with_labels(counter: str) -> None:
    assert [run.counts for run in read(*case("typical"), counter=counter)] == [Counts(N, N, 0)] * 2


@pytest.mark.parametrize("counter", ["two words", 'a{b="c}', "{}", '{b="c"}', "a 1"])
def test_what_names_no_counter_is_an_error(counter: str) -> None:
    with pytest.raises(InputError, match=r"evidence\.attempted names no counter"):
        read(*case("typical"), counter=counter)


def test_a_request_that_finishes_in_the_next_window_is_no_failure(tmp_path: Path) -> None:
    texts = [engine(1) + gateway(1), engine(2) + gateway(1, {"200": 1690, "429": 0}), engine(3) + gateway(3)]
    assert [run.counts.failed for run in read(*series(tmp_path, *texts))] == [0, 0]
    texts[2] = engine(3) + gateway(1, {"200": 2500, "429": 0})  # 1670 sent, 1660 finished
    assert sum(run.counts.failed for run in read(*series(tmp_path, *texts))) == 10


def test_a_gateway_without_a_model_label_cannot_speak_for_two_models(tmp_path: Path) -> None:
    def both(times: int) -> str:
        other = engine(times, model="other", began=None).replace("# TYPE", "# HELP")
        return engine(times) + other + gateway(2 * times)

    runs = read(*series(tmp_path, both(1), both(2)))
    assert [run.model for run in runs] == ["mock-model", "other"]
    assert all("give its counter a model label" in run.doubted["ttft"] for run in runs)


def test_a_model_label_of_the_gateway_tells_the_models_apart(tmp_path: Path) -> None:
    def both(times: int) -> str:
        lines = [f'g_total{{model="{model}"}} {number * times}' for model, number in
                 (("mock-model", N), ("other", N + 5))]  # fmt: skip
        other = engine(times, model="other", began=None).replace("# TYPE", "# HELP")
        return engine(times) + other + "\n".join(lines) + "\n"

    runs = read(*series(tmp_path, both(1), both(2)), counter="g_total")
    assert {run.model: run.counts for run in runs} == {
        "mock-model": Counts(N, N, 0),
        "other": Counts(N + 5, N, 5),
    }


# ---- what was lost ------------------------------------------------------------------------


def refused(run: Run) -> str:
    assert run.counts == Counts(0, 0, 0)
    assert set(run.doubted) == {"ttft", "tpot", "itl", "e2e", "error_rate"}
    assert len(set(run.doubted.values())) == 1
    return run.doubted["ttft"]


def test_a_restart_refuses_its_window_and_keeps_it_among_the_runs() -> None:
    good, bad = read(*case("restart"))
    assert good.counts == Counts(N, N, 0)
    assert "restarted" in refused(bad)
    assert bad.load == good.load  # else the window would fall out of the group that is judged


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (engine(1, began=None), "fell from 80 to 40"),
        (engine(5, began=BEGAN + 700), "restarted"),  # faster than before: only the start tells
        (engine(3).replace("vllm:e2e_request_latency_seconds", "vllm:other_seconds"), "e2e.*vanished"),
        ("# TYPE python_info gauge\npython_info 1.0\n", "vanished"),
    ],
)
def test_a_counter_that_falls_or_vanishes_refuses_the_window(tmp_path: Path, later: str, why: str) -> None:
    began = None if "process_start" not in later else BEGAN
    (run,) = read(*series(tmp_path, engine(2, began=began) + gateway(2), later + gateway(3)))
    assert re.search(why, refused(run))


def test_a_created_time_that_moves_is_a_restart(tmp_path: Path) -> None:
    def dated(times: int, created: float) -> str:
        line = f'vllm:e2e_request_latency_seconds_created{{model_name="mock-model"}} {created}\n'
        return engine(times, began=None) + line + gateway(times)

    texts = [dated(1, BEGAN), dated(2, BEGAN), dated(3, BEGAN + 9)]
    good, bad = read(*series(tmp_path, *texts))
    assert set(good.doubted) == {"itl"}
    assert "restarted" in refused(bad)


def test_a_replica_that_joins_counts_only_where_its_start_is_known(tmp_path: Path) -> None:
    a = 'instance="a",'
    steps = {
        float(T0): engine(1, labels=a),
        float(T0 + 180): engine(2, labels=a) + engine(1, labels='instance="b",', began=T0 + 60.0),
    }
    (run,) = read(save(tmp_path, "known.json", range_answer(steps)), counter=None)
    assert run.counts.completed == 2 * N
    steps[float(T0 + 180)] = engine(2, labels=a) + engine(1, labels='instance="b",', began=T0 - 60.0)
    (run,) = read(save(tmp_path, "older.json", range_answer(steps)))
    assert "nothing says when it began" in refused(run)


def test_windows_without_traffic_are_left_out_with_a_note(tmp_path: Path) -> None:
    texts = [engine(1) + gateway(1), engine(1) + gateway(1), engine(2) + gateway(2)]
    (run,) = read(*series(tmp_path, *texts))
    assert run.counts == Counts(N, N, 0)
    assert "1 of 2 windows saw no request and are left out" in run.notes


# ---- verdicts -----------------------------------------------------------------------------


def judged(runs: list[Run], *objectives: Any, **facts: Any) -> Verdict:
    return evaluate(make_policy(*objectives, **facts), runs, TODAY).verdict


def test_a_canary_of_ten_scrapes_is_decided_on_bucket_edges() -> None:
    runs = read(*case("canary"))
    # 24 900 requests: 97.23 % within 80 ms and 99.16 % within 100 ms; 99.76 % within 500 ms E2E.
    assert judged(runs, latency("ttft", 99, 0.25)) is Verdict.PASS
    assert judged(runs, latency("ttft", 99, 0.08)) is Verdict.FAIL
    assert judged(runs, latency("e2e", 90, 0.5)) is Verdict.PASS
    assert (
        judged(runs, latency("e2e", 99, 0.45)) is Verdict.INCONCLUSIVE
    )  # true P99 is 444 ms: inside a bucket
    assert judged(runs, latency("tpot", 99, 0.008)) is Verdict.INCONCLUSIVE  # below the lowest edge
    assert judged(runs, goodput(0.95), bounds={"ttft": 0.25, "e2e": 0.8}) is Verdict.PASS
    target = Workload(target=Load(request_rate=10.0, production=True))
    assert judged(runs, latency("ttft", 99, 0.25), workload=target) is Verdict.PASS
    more = Workload(target=Load(request_rate=20.0, production=True))
    assert judged(runs, latency("ttft", 99, 0.25), workload=more) is Verdict.INCONCLUSIVE


def test_a_restart_in_a_canary_is_never_green(tmp_path: Path) -> None:
    steps = {float(T0 + 180 * k): engine(k + 1) + gateway(k + 1) for k in range(10)}
    steps[float(T0 + 1800)] = engine(1, began=T0 + 1700.0) + gateway(11)
    runs = read(save(tmp_path, "range.json", range_answer(steps)))
    target = Workload(target=Load(request_rate=1.0, production=True))
    for objective, facts in (
        (latency("ttft", 50, 10.0), {}),
        (goodput(0.5), {"bounds": {"ttft": 10.0}}),
        (error_rate(0.5), {}),
    ):
        assert judged(runs, objective, **facts) is Verdict.INCONCLUSIVE
        assert judged(runs, objective, workload=target, **facts) is Verdict.INCONCLUSIVE


def test_a_canary_without_the_gateways_counter_is_never_green() -> None:
    runs = read(*case("canary"), counter=None)
    for objective, facts in (
        (latency("ttft", 50, 10.0), {}),
        (goodput(0.5), {"bounds": {"ttft": 10.0}}),
        (error_rate(0.5), {}),
    ):
        assert judged(runs, objective, **facts) is Verdict.INCONCLUSIVE
