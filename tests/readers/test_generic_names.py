"""Names of columns in home-made rows: which of them tell of failures, and which stand for ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate import readers
from gate.errors import InputError, UsageError
from gate.model import Why
from gate.readers.telltales import tells
from tests.conftest import FIXTURES, Process

ROW = {"start_s": 0.0, "ttft_s": 0.5, "e2e_s": 1.2, "output_tokens": 100}


def write(folder: Path, rows: list[dict[str, Any]], name: str = "r.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# ---- which names tell of failures ---------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("err_msg", "errMsg", "isFailed", "is_failed", "failure_cause", "requestFailed", "num_failures"),
        *("succeeded", "isSuccess", "wasSuccessful", "req_success", "aborted_by", "was_aborted", "timed_out"),
        *("timedOut", "valid", "is_valid", "isInvalid", "HTTPStatusCode", "resp_code", "http", "statusText"),
        *("finish_reason", "stopReason", "exitCode", "rc", "exc", "exceptionType", "crashed", "outcome"),
        *("error_str", "responseErrorMessage", "httpStatus", "was_refused", "final_state", "unhealthy"),
        *(
            "is_incomplete",
            "unfinished",
            "wasInterrupted",
            "finished",
            "disconnected",
            "rate_limited",
            "traceback",
        ),
        *("was_cut", "cutShort", "oom", "server_unreachable", "malformed", "hung", "panic_message"),
    ],
)
def test_a_name_with_the_word_of_a_failure_tells(name: str) -> None:
    assert tells(name)


@pytest.mark.parametrize(
    "name",
    [
        *("server", "user_id", "is_cached", "statistics", "terrain", "std_err", "timeout_s"),
        *(
            "country_code",
            "zip_code",
            "code_language",
            "reasoning_tokens",
            "validation_ms",
            "completion_tokens",
        ),
        *("valid_tokens", "encoder", "serial", "failover_region", "estate", "restate", "okapi", "passage"),
        *(
            "successor",
            "ferret",
            "errand",
            "abortive",
            "reason_len",
            "interstate",
            "statusbar_px",
            "decode_s",
        ),
    ],
)
def test_a_harmless_name_tells_nothing(name: str) -> None:
    assert not tells(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("server", "eu-1"), ("user_id", 7), ("is_cached", False), ("statistics", {"n": 0, "max": 5})),
        *(
            ("terrain", "flat"),
            ("usage", {"completion_tokens": 9}),
            ("tags", ["a", "b"]),
            ("zip_code", 94107),
        ),
    ],
)
def test_harmless_columns_refuse_no_file(name: str, value: object, tmp_path: Path) -> None:
    (run,) = readers.read([write(tmp_path, [{**ROW, name: value}] * 30)]).runs
    assert run.counts.completed == 30


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        *(("incomplete", True, False), ("interrupted", "yes", "no"), ("finished", False, True)),
        *(
            ("rate_limited", True, False),
            ("was_cut", 1, 0),
            ("traceback", "Traceback (most recent ...", None),
        ),
    ],
)
def test_an_answer_that_did_not_come_whole_is_no_success(
    name: str, bad: object, good: object, tmp_path: Path
) -> None:
    rows = [{**ROW, "error": None, name: bad if number % 3 == 0 else good} for number in range(30)]
    with pytest.raises(InputError, match=name):
        readers.read([write(tmp_path, rows)])
    healthy = [{**ROW, "error": None, name: good}] * 30
    (run,) = readers.read([write(tmp_path, healthy)]).runs
    assert run.counts.completed == 30


@pytest.mark.parametrize(
    ("nested", "path"),
    [
        ({"response": {"status": 503}}, "response.status"),
        ({"response": {"success": False}}, "response.success"),
        ({"meta": {"http": {"statusCode": 500}}}, "meta.http.statusCode"),
        ({"attempts_log": [{"status": 200}, {"error": "reset"}]}, "attempts_log.error"),
        ({"result": {"outcome": "timeout"}}, "result.outcome"),
    ],
)
@pytest.mark.parametrize("error", [{}, {"error": None}])
def test_failures_inside_nested_objects_are_found(
    nested: dict[str, Any], path: str, error: dict[str, Any], tmp_path: Path
) -> None:
    rows = [{**ROW, **error}] * 400 + [{**ROW, **error, **nested}]
    with pytest.raises(InputError) as caught:
        readers.read([write(tmp_path, rows)])
    assert f'"{path}"' in caught.value.message
    assert "line 401" in caught.value.where


def test_a_nested_object_that_tells_of_no_failure_refuses_nothing(tmp_path: Path) -> None:
    nested = {"response": {"status": 200, "choices": [{"finish_reason": "stop"}]}}
    (run,) = readers.read([write(tmp_path, [{**ROW, **nested}] * 9)]).runs
    assert run.counts.completed == 9


@pytest.mark.parametrize("line", ['"error": "HTTP 503", "error": null', '"status": 503, "status": 200'])
def test_a_key_that_stands_twice_hides_nothing(line: str, tmp_path: Path) -> None:
    whole = json.dumps({**ROW, "error": None, "note": 'a text with a ": in it'})
    path = tmp_path / "r.jsonl"
    plain = json.dumps(ROW)[:-1]
    path.write_text(f"{whole}\n{plain}, {line}}}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"duplicate key .* in one row") as caught:
        readers.read([str(path)])
    assert "line 2" in caught.value.where


@pytest.mark.parametrize("at", [0, 17_000, 59_999])
def test_a_failure_is_found_wherever_it_stands_in_a_large_file(at: int, tmp_path: Path) -> None:
    """60,000 rows are more than 4 MB, of which only samples were once looked at."""
    rows = [{**ROW, "start_s": i / 10} for i in range(60_000)]
    rows[at] = {**rows[at], "statusCode": 503}
    with pytest.raises(InputError, match='"statusCode"'):
        readers.read([write(tmp_path, rows)])


@pytest.mark.parametrize(("name", "value", "times"), [("retries", 2, 2), ("num_attempts", 3, 2)])
def test_repeated_attempts_doubt_the_error_rate(name: str, value: int, times: int, tmp_path: Path) -> None:
    (run,) = readers.read([write(tmp_path, [ROW, {**ROW, name: value}, {**ROW, name: 0}])]).runs
    doubt = run.doubt("error_rate")
    assert doubt is not None
    assert doubt.code is Why.RETRIED
    assert f"up to {times} times" in doubt.why


def test_rows_that_were_never_repeated_have_no_such_doubt(tmp_path: Path) -> None:
    (run,) = readers.read([write(tmp_path, [{**ROW, "retries": 0, "attempts": 1}] * 9)]).runs
    assert run.doubt("error_rate") is None


# ---- names that stand for ours ------------------------------------------------------------

FOREIGN = [{"latency_ms": 900.0 + i, "first_ms": 100.0 + i, "out": 50} for i in range(9)]
MAP = ("e2e_ms=latency_ms", "ttft_ms=first_ms", "output_tokens=out")


def test_mapped_columns_are_read_as_ours(tmp_path: Path) -> None:
    csv = "first_ms,latency_ms,out\n" + "".join(f"{100 + i},{900 + i},50\n" for i in range(9))
    (tmp_path / "r.csv").write_text(csv, encoding="utf-8")
    (tmp_path / "r.json").write_text(json.dumps(FOREIGN), encoding="utf-8")
    for path in (write(tmp_path, FOREIGN), str(tmp_path / "r.csv"), str(tmp_path / "r.json")):
        (run,) = readers.read([path], columns=MAP).runs
        rows = run.evidence
        assert rows.e2e_s.tolist() == pytest.approx([0.9 + i / 1000 for i in range(9)])  # type: ignore[union-attr]
        assert rows.ttft_s.tolist() == pytest.approx([0.1 + i / 1000 for i in range(9)])  # type: ignore[union-attr]
        assert run.total_output_tokens == 450
        assert run.columns == {"e2e_ms": "latency_ms", "ttft_ms": "first_ms", "output_tokens": "out"}


def test_a_sidecar_maps_the_columns_of_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, FOREIGN)
    Path(f"{path}.slo.json").write_text('{"columns": {"e2e_ms": "latency_ms"}}', encoding="utf-8")
    (run,) = readers.read([path]).runs
    assert run.columns == {"e2e_ms": "latency_ms"}
    (run,) = readers.read([path], columns=MAP[1:]).runs
    assert set(run.columns) == {"e2e_ms", "ttft_ms", "output_tokens"}


def test_an_error_column_of_another_name_is_read_once_it_is_mapped(tmp_path: Path) -> None:
    path = write(tmp_path, [{**ROW, "err_msg": "HTTP 503" if i < 3 else ""} for i in range(10)])
    with pytest.raises(InputError, match='"err_msg"'):
        readers.read([path])
    (run,) = readers.read([path], columns=["error=err_msg"]).runs
    assert (run.counts.attempted, run.counts.failed) == (10, 3)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (["e2e_ms"], "expected OURS=THEIRS"),
        (["latency_ms=e2e_ms"], '"latency_ms" is no column of the generic format'),
        (["e2e_ms=latency_ms", "e2e_ms=first_ms"], "mapped twice"),
        (["e2e_ms=latency_ms", "ttft_ms=latency_ms"], "mapped twice"),
    ],
)
def test_a_map_that_means_nothing_is_a_usage_error(items: list[str], why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        readers.read([write(tmp_path, FOREIGN)], columns=items)


def test_a_map_that_does_not_fit_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='has no column "took"'):
        readers.read([write(tmp_path, [ROW])], columns=["e2e_ms=took"])
    with pytest.raises(InputError, match='has "e2e_s" and "took"'):
        readers.read([write(tmp_path, [{**ROW, "took": 1.0}])], columns=["e2e_s=took"])
    with pytest.raises(UsageError, match="no file is read as home-made rows"):
        readers.read([str(FIXTURES / "llm-load-test" / "typical")], columns=["e2e_ms=took"])


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".json"])
def test_near_names_are_told_with_the_option_that_maps_them(
    suffix: str, tmp_path: Path, slo_gate: Process
) -> None:
    path = tmp_path / f"r{suffix}"
    if suffix == ".csv":
        path.write_text("latency_ms,out\n900,50\n901,50\n", encoding="utf-8")
    else:
        rows = [json.dumps(row) for row in FOREIGN]
        path.write_text("\n".join(rows) if suffix == ".jsonl" else f"[{','.join(rows)}]", encoding="utf-8")
    policy = tmp_path / "p.yaml"
    rule = "slo: {e2e: {p50: 5s}}\nevidence: {decide: point}\nworkload: {output_tokens: none}\n"
    policy.write_text(f"version: 1\nname: c\n{rule}", encoding="utf-8")
    refused = slo_gate("check", str(path), "-p", str(policy))
    assert refused.returncode == 3
    assert '"latency_ms" (meant as e2e_ms?)' in refused.stderr
    assert "--map e2e_ms=latency_ms" in refused.stderr
    mapped = slo_gate("check", str(path), "-v", "-p", str(policy), "--map", "e2e_ms=latency_ms")
    assert mapped.returncode == 0
    assert "e2e_ms from latency_ms (stated by" in mapped.stdout
    assert "--map e2e_ms=latency_ms" in mapped.stdout  # the command that gives this verdict again
