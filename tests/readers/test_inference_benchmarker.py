"""inference-benchmarker: what its steps say, what they leave out, and what its file must hold."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import readers
from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Aggregate, Counts, Load, Run, Verdict, Why
from gate.policy import load
from gate.readers import inference_benchmarker, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES
from tests.readers.inference_benchmarker_results import (
    CASES,
    Document,
    closed,
    failing,
    healthy,
    opened,
    report,
)

HERE = FIXTURES / "inference-benchmarker"
NAME = "meta-llama_Llama-3_1-8B-Instruct_2026-12-01-00-03-24.json"


def read(path: Path) -> list[Run]:
    source = Source(path, path.name)
    assert readers.claim(source) is inference_benchmarker
    return list(runs_of(inference_benchmarker, source))


def written(folder: Path, document: Document) -> Path:
    path = folder / NAME
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def one(folder: Path, document: Document) -> Run:
    (run,) = read(written(folder, document))
    return run


def percentiles(run: Run, metric: str) -> dict[float, float]:
    assert isinstance(run.evidence, Aggregate)
    return dict(run.evidence.summaries[metric].percentiles)


# ---- what a step says ---------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_fixtures_are_made_by_the_calculation_that_origin_names(case: str) -> None:
    assert json.loads((HERE / case / NAME).read_text(encoding="utf-8")) == CASES[case]


def test_each_step_but_the_warm_up_is_a_run_at_its_own_load() -> None:
    runs = read(HERE / "typical" / NAME)
    reached = CASES["typical"]["results"][1]["request_rate"]
    assert runs[0].load == Load(concurrency=4)
    rates = [run.load.request_rate for run in runs[1:] if run.load]
    assert rates == pytest.approx([0.4 * reached, 0.8 * reached, 1.2 * reached])
    assert {run.load.cap for run in runs[1:] if run.load} == {4}


def test_percentiles_are_those_of_the_answers_in_seconds() -> None:
    answers = closed(healthy, 4, 60)
    (run, *_) = read(HERE / "typical" / NAME)
    for metric, values in {
        "ttft": [a.ttft_s for a in answers],
        "tpot": [a.decode_s / (a.tokens - 1) for a in answers],
        "e2e": [a.e2e_s for a in answers],
    }.items():
        stated = percentiles(run, metric)
        assert list(stated) == [50, 60, 70, 80, 90, 95, 99]
        assert list(stated.values()) == pytest.approx(np.percentile(values, list(stated)), abs=1e-6)
        assert run.tool_reported[metric].mean == pytest.approx(np.mean(values), abs=1e-6)


def test_a_step_counts_requests_tokens_and_time_without_the_warm_up() -> None:
    answers = closed(healthy, 4, 60)
    (run, *_) = read(HERE / "typical" / NAME)
    assert run.counts == Counts(len(answers), len(answers), 0)
    assert run.total_output_tokens == sum(answer.tokens for answer in answers)
    assert run.duration_s == pytest.approx(answers[-1].end_s - answers[0].start_s, abs=1e-3)


def test_failures_are_counted_and_are_in_no_percentile() -> None:
    answers = opened(failing(20), 2.0, 8, 60)
    (run, _) = read(HERE / "failures" / NAME)
    failed = sum(answer.failed for answer in answers)
    assert failed == 6
    assert run.counts == Counts(len(answers), len(answers) - failed, failed)
    e2e_s = [answer.e2e_s for answer in answers if not answer.failed]
    assert percentiles(run, "e2e")[50] == pytest.approx(np.percentile(e2e_s, 50), abs=1e-6)


def test_model_tokenizer_and_day_are_stated_and_nothing_else_is_read() -> None:
    (run, *_) = read(HERE / "typical" / NAME)
    assert (run.model, run.tokenizer) == ("llama", "meta-llama/Llama-3.1-8B-Instruct")
    assert (run.date, run.tool_version, run.hardware) == ("2026-11-30", None, None)
    assert "hf_never_read" in (HERE / "typical" / NAME).read_text(encoding="utf-8")
    assert "hf_never_read" not in repr(run)


def test_before_1_0_the_model_is_what_the_tokenizer_is_called() -> None:
    (run,) = read(HERE / "old" / NAME)
    assert run.model == "meta-llama/Llama-3.1-8B-Instruct"


# ---- what it leaves out -------------------------------------------------------------------


def cut_off(run: Run) -> int | None:
    return next((doubt.requests for doubt in run.doubts if doubt.code is Why.FAILURES_HIDDEN), None)


def test_in_a_closed_loop_the_answers_of_all_users_but_one_are_cut_off_at_the_end(tmp_path: Path) -> None:
    assert cut_off(one(tmp_path, report("Throughput", vus=4))) == 3
    assert cut_off(one(tmp_path, report("Throughput", vus=1))) is None


def test_in_an_open_loop_those_that_came_due_and_have_no_answer_are(tmp_path: Path) -> None:
    run = one(tmp_path, report("Rate", rates=[3.0], duration_s=100))
    assert cut_off(run) == 300 - len(opened(healthy, 3.0, 4, 100)) > 0


def test_requests_that_the_client_skips_are_no_failures_and_leave_an_easier_load() -> None:
    slow, over = read(HERE / "typical" / NAME)[1::2]
    assert cut_off(over) == 4  # as many as there are users
    assert not any(doubt.code is Why.EASIER_LOAD for doubt in slow.doubts)
    (doubt,) = (doubt for doubt in over.doubts if doubt.code is Why.EASIER_LOAD)
    sent = (over.counts.attempted + 4) / 60
    assert doubt.why.startswith(f"requests were sent at {sent:.3g} req/s, 8.95959 were asked for")


@pytest.mark.parametrize(("duration_s", "verdict"), [(20, Verdict.INCONCLUSIVE), (200, Verdict.PASS)])
def test_no_error_rate_passes_that_the_requests_cut_off_could_break(
    duration_s: int, verdict: Verdict, tmp_path: Path
) -> None:
    text = "version: 1\nname: x\nlimits: {error_rate: {max: 1%}}\nevidence: {decide: point}\n"
    (tmp_path / "slo.yaml").write_text(text, encoding="utf-8")
    run = one(tmp_path, report("Throughput", vus=16, duration_s=duration_s))  # 15 beside some 30 a second
    (check,) = evaluate(load(str(tmp_path / "slo.yaml")), [run], date(2026, 12, 1)).checks
    assert check.verdict is verdict
    assert verdict is Verdict.PASS or "longer --duration" in check.reason


def test_answers_in_one_chunk_have_no_time_between_tokens(tmp_path: Path) -> None:
    document = report("Throughput")
    step = document["results"][1]
    step["time_to_first_token_ms"] = {name: value - 2 for name, value in step["e2e_latency_ms"].items()}
    step["inter_token_latency_ms"] = dict.fromkeys(step["inter_token_latency_ms"], 0.0)
    run = one(tmp_path, document)
    assert "in one piece" in run.doubted["ttft"]
    assert run.doubted.keys() >= {"ttft", "tpot", "itl"}


# ---- what a file must hold ----------------------------------------------------------------


def last(document: Document) -> Document:
    step: Document = document["results"][-1]
    return step


def renamed(document: Document) -> None:
    """The percentiles as 0.1.0 wrote them."""
    step = last(document)
    for block in [name for name in step if name.endswith("_ms") and isinstance(step[name], dict)]:
        step |= {f"{block}_{name}": step[block][name] for name in ("avg", "p90", "p95")}
        del step[block]


CHANGES: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a step taken away": (lambda d: d["results"].pop(), "has 4 steps instead of a warm-up and 4"),
    "the warm-up taken away": (lambda d: d["results"].pop(0), "has 4 steps instead of a warm-up and 4"),
    "a step twice": (lambda d: d["results"].append(d["results"][-1]), "has 6 steps"),
    "no step": (lambda d: d["results"].clear(), "has 0 steps"),
    "no rate": (lambda d: d["config"].update(benchmark_kind="Rate"), "a warm-up and 0"),
    "a loop of another kind": (
        lambda d: last(d)["config"].update(rate=None),
        "ConstantArrivalRate at a rate",
    ),
    "a closed loop with a rate": (
        lambda d: last(d).update(executor_type="ConstantVUs"),
        "contradicts itself",
    ),
    "counts that do not add up": (lambda d: last(d).update(failed_requests=7), "7 failed are not"),
    "a negative count": (lambda d: last(d).update(total_requests=-1), ">= 0"),
    "no users": (lambda d: last(d)["config"].update(max_vus=0), ">= 1"),
    "no time": (lambda d: last(d)["config"].update(duration_secs=0), ">= 1"),
    "a rate of 0": (lambda d: last(d)["config"].update(rate=0.0), "> 0"),
    "a text for a time": (lambda d: last(d)["e2e_latency_ms"].update(p99="612"), "float"),
    "a percentile taken away": (
        lambda d: last(d)["e2e_latency_ms"].pop("p99"),
        "missing required field `p99`",
    ),
    "a mean taken away": (lambda d: last(d)["e2e_latency_ms"].pop("avg"), "missing required field `avg`"),
    "percentiles of 0.1.0": (renamed, "time_to_first_token_ms"),
    "no configuration": (lambda d: d.update(config=None), "expected"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_tool_never_writes_is_refused_with_what_next(change: str, tmp_path: Path) -> None:
    document = copy.deepcopy(CASES["typical"])
    apply, message = CHANGES[change]
    apply(document)
    path = written(tmp_path, document)
    with pytest.raises(InputError, match=message) as caught:
        readers.read([str(path)], tool="inference-benchmarker")
    assert caught.value.hint


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = (HERE / "typical" / NAME).read_bytes()
    path = tmp_path / NAME
    for end in range(40, len(data), 97):
        path.write_bytes(data[:end])
        with pytest.raises(InputError):
            read(path)
