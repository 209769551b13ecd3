"""What `<result>.slo.json` adds to a result, and when it is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gate.errors import InputError
from gate.model import Load, Run
from gate.readers import read

ROWS = [{"start_s": at * 0.1, "ttft_s": 0.1, "e2e_s": 0.5, "output_tokens": 9} for at in range(20)]


def result(folder: Path, sidecar: object, **facts: Any) -> Path:
    path = folder / "result.jsonl"
    path.write_text("".join(json.dumps(row | facts) + "\n" for row in ROWS))
    beside = folder / "result.jsonl.slo.json"
    beside.write_text(sidecar if isinstance(sidecar, str) else json.dumps(sidecar))
    return path


def only(path: Path, *stated: str) -> Run:
    (run,) = read([str(path)], stated=stated).runs
    return run


def test_a_sidecar_states_what_the_file_cannot(tmp_path: Path) -> None:
    said = {
        "session": "s1",
        "tool_version": "2.0",
        "model": "llama",
        "hardware": "8xH100",
        "load": {"concurrency": 64, "request_rate": None},
        "later": {"keys": "are left alone"},
    }
    run = only(result(tmp_path, said))
    assert (run.session, run.tool_version, run.model, run.hardware) == ("s1", "2.0", "llama", "8xH100")
    assert run.load == Load(concurrency=64)
    assert run.stated == {"tool_version", "model", "hardware", "load"}


def test_a_load_that_contradicts_the_file_or_the_caller_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the sidecar says the load is 2\.5 req/s, the result says concurrency 8"
    ):
        only(result(tmp_path, {"load": {"request_rate": 2.5}}, concurrency=8))
    with pytest.raises(InputError, match="stated by the caller"):
        only(result(tmp_path, {"load": {"concurrency": 8}}), "concurrency=64")
    assert only(result(tmp_path, {"load": {"concurrency": 8}}, concurrency=8)).load == Load(concurrency=8)


@pytest.mark.parametrize("fact", ["session", "model", "hardware", "tool_version"])
def test_a_sidecar_that_contradicts_its_file_is_refused(tmp_path: Path, fact: str) -> None:
    with pytest.raises(InputError, match=f'the sidecar says {fact} is "a", the result says "b"'):
        only(result(tmp_path, {fact: "a"}, **{fact: "b"}))


def test_a_sidecar_that_contradicts_the_caller_is_refused(tmp_path: Path) -> None:
    path = result(tmp_path, {"hardware": "8xH100"})
    assert only(path, "hardware=8xH100").hardware == "8xH100"
    with pytest.raises(InputError, match="hardware"):
        only(path, "hardware=1xL4")


def test_a_sidecar_of_other_content_is_refused(tmp_path: Path) -> None:
    path = result(tmp_path, {})
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert only(result(tmp_path, {"result": {"sha256": sha256}, "session": "s"})).session == "s"
    with pytest.raises(InputError, match="other content"):
        only(result(tmp_path, {"result": {"sha256": sha256}}, model="m"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '"x"',
        '{"session": 5}',
        '{"session": ""}',
        json.dumps({"model": "m" * 201}),
        "[" * 100_000,
        '{"load": {"concurrency": 0}}',
        '{"load": {"concurrency": 1, "request_rate": 2}}',
    ],
    ids=range(10),
)
def test_a_broken_sidecar_is_an_error_and_never_ignored(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        only(result(tmp_path, text))
    assert caught.value.where.endswith("result.jsonl.slo.json")


def test_a_client_that_was_short_of_cores_is_noted(tmp_path: Path) -> None:
    busy = {"client": {"machine_busy": 0.95, "event_loop_lag_p99_s": 0.03}}
    notes = " ".join(only(result(tmp_path, busy)).notes)
    assert "the client's machine was busy" in notes
    assert "over 20 ms late" in notes
    calm = {"client": {"machine_busy": 0.5, "event_loop_lag_p99_s": 0.001}}
    assert "client" not in " ".join(only(result(tmp_path, calm)).notes)


def test_a_sidecar_in_a_folder_is_no_result_of_its_own(tmp_path: Path) -> None:
    result(tmp_path, {"session": "s1"})
    (run,) = read([str(tmp_path)]).runs
    assert run.session == "s1"
