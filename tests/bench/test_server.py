"""`slo-gate run` against a server that streams: real times, and the server as a witness."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.bench.witness import Seen, WitnessError, compare, notes, scrape
from gate.readers.prometheus.engines import Series
from gate.readers.prometheus.scrapes import Scrape

from .conftest import Session, client

LOOPBACK = """\
version: 1
name: loopback
workload: {{load: {{concurrency: 4}}}}
slo:
  ttft: {{p90: 150ms}}
goodput:
  min: 80%
  request: {{ttft: 150ms, tpot: 60ms}}
limits: {{error_rate: {{max: 5%}}}}
evidence: {{decide: point}}
{more}
"""
# Tokens clearly apart: answers whose tokens are under 1 ms apart count as having come in one piece.
FAST = ("--ttft-ms", 15, "--tpot-ms", 5)
Server = Callable[..., str]


@pytest.fixture
def loopback(session: Session) -> Session:
    """A point estimate: a machine that is shared may be too unsteady for more in so little time."""
    session.policy(text=LOOPBACK)
    return session


def sidecar(session: Session, run: str = "run-0001") -> dict[str, object]:
    found: dict[str, object] = json.loads(
        (session.folder / "candidate" / run / "result.json.slo.json").read_text()
    )
    return found


def test_a_server_that_keeps_its_promise_passes(loopback: Session, server: Server) -> None:
    url = server(*FAST)
    report = loopback.report("--runs", 2, "--witness", f"{url}/metrics", command=client(url))
    assert report["verdict"] == "pass", report["headline"]
    assert report["goodput"]["attempted"] == 200
    assert sidecar(loopback)["witness"] == {
        "restarted": "",
        "finished": 100,
        "preemptions": 0,
        "cache_hit_share": 0.0,
    }
    assert not any("the server finished" in note for note in report["notes"])


def test_a_server_with_too_few_slots_fails_on_the_wait_before_the_first_token(
    loopback: Session, server: Server
) -> None:
    """One of four at a time, 60 ms of prefill and 7 tokens of 10 ms: the fourth waits for three."""
    url = server("--ttft-ms", 60, "--tpot-ms", 10, "--capacity", 1)
    report = loopback.report("--runs", 1, command=client(url, "--requests", 24))
    assert report["verdict"] == "fail"
    assert report["metrics"]["ttft_s"]["p50"] > 0.15
    assert report["metrics"]["tpot_s"]["p50"] < 0.06


def test_errors_of_the_server_are_failed_requests(loopback: Session, server: Server) -> None:
    url = server(*FAST, "--error-rate", 0.3)
    report = loopback.report("--runs", 1, command=client(url))
    assert report["verdict"] == "fail"
    rate = next(one for one in report["objectives"] if one["id"] == "error_rate")
    assert 0.15 < rate["observed"] < 0.45, "three in ten, give or take four standard errors"


# ---- the witness --------------------------------------------------------------------------------


def test_a_restart_in_the_middle_of_a_run_makes_it_no_data(loopback: Session, server: Server) -> None:
    url = server(*FAST)
    flag = loopback.home / "crash"
    flag.touch()
    command = client(url, "--requests", 40, "--crash-if", flag)
    report = loopback.report("--runs", 2, "--witness", f"{url}/metrics", command=command)
    assert [one["why"] for one in loopback.journal("failed")] == ["the server restarted while it ran"]
    assert any("1 run failed and was made again: the server restarted" in note for note in report["notes"])
    assert len(list((loopback.folder / "failed").rglob("result.json"))) == 1
    assert all("attempt-2" in one["input"] for one in report["runs"][:1])


def test_rows_that_are_missing_from_the_file_are_noted(loopback: Session, server: Server) -> None:
    url = server(*FAST)
    command = client(url, "--requests", 60, "--drop", 20)
    report = loopback.report("--runs", 2, "--witness", f"{url}/metrics", command=command)
    assert any("the server finished more requests than the file holds" in note for note in report["notes"])


def test_the_same_prompts_again_show_in_the_cache_hits(loopback: Session, server: Server) -> None:
    url = server(*FAST)
    command = [word if word != "{seed}" else "3" for word in client(url, "--requests", 40)]
    report = loopback.report("--runs", 2, "--witness", f"{url}/metrics", command=command)
    assert sidecar(loopback, "run-0002")["witness"]["cache_hit_share"] == 1.0  # type: ignore[index]
    assert any("takes no {seed}" in note for note in report["notes"])


def test_without_its_witness_nothing_is_run(loopback: Session, server: Server) -> None:
    url = server(*FAST)
    done = loopback.run("--witness", f"{url}/nothing", "--max-failures", 2, command=client(url))
    assert done.returncode == 3
    assert "HTTP 404" in done.stderr
    assert not loopback.journal("pid")


def test_of_two_servers_the_one_whose_metrics_cannot_be_read_is_named(
    loopback: Session, server: Server
) -> None:
    """The baseline, which has no witness, stands first in the batch."""
    url = server(*FAST)
    options = ("--side-by-side", "--max-failures", 1, "--baseline-command", shlex.join(client(url)))
    done = loopback.run(*options, "--witness", f"{url}/nothing", command=client(url))
    assert done.returncode == 3
    assert [one["why"].partition(" (")[0] for one in loopback.journal("failed")] == [
        "the server's metrics cannot be read: HTTP 404"
    ]


def test_a_page_that_is_no_exposition_is_no_witness(server: Server, tmp_path: Path) -> None:
    with pytest.raises(WitnessError, match="no sample of a Prometheus exposition"):
        scrape(f"{server(*FAST)}/health", tmp_path / "x.gz")


def seen(
    before: dict[str, float], after: dict[str, float], starts: tuple[float, float] | None = None
) -> Seen:
    def look(values: dict[str, float], start: float | None) -> Scrape:
        found = Scrape(None)  # type: ignore[arg-type]
        for name, value in values.items():
            found.put(Series(name), value)
        if start is not None:
            found.put(Series("process_start_time_seconds"), start)
        return found

    return compare(look(before, starts[0] if starts else None), look(after, starts[1] if starts else None))


@pytest.mark.parametrize(
    ("before", "after", "starts", "said"),
    [
        ({"sglang_num_requests_total": 5}, {"sglang_num_requests_total": 4}, None, "began anew"),
        ({"vllm_request_success_total": 5}, {}, None, "is gone from the server's metrics"),
        ({"vllm_request_success_created": 7.5}, {"vllm_request_success_created": 9.5}, None, "began anew"),
        ({}, {}, (1.0, 2.0), "the server restarted"),
    ],
)
def test_a_restart_is_seen_in_whatever_the_server_exports(
    before: dict[str, float], after: dict[str, float], starts: tuple[float, float] | None, said: str
) -> None:
    assert said in seen(before, after, starts).restarted


def test_counts_are_differences_and_absent_ones_are_unknown() -> None:
    found = seen(
        {"sglang_num_requests_total": 5, "sglang_cached_tokens_total": 10, "sglang_prompt_tokens_total": 100},
        {
            "sglang_num_requests_total": 25,
            "sglang_cached_tokens_total": 40,
            "sglang_prompt_tokens_total": 200,
        },
    )
    assert found == Seen("", 20, None, 0.3)


@pytest.mark.parametrize(
    ("finished", "said"), [(99, "fewer"), (100, ""), (110, ""), (112, ""), (113, "more"), (None, "")]
)
def test_the_server_may_have_finished_what_the_file_holds_and_a_first_try(
    finished: int | None, said: str
) -> None:
    """100 completed of 110 sent; a tool's first request, to see whether the server is there, is none."""
    found = notes(Seen("", finished), 100, 110)
    assert [said in note for note in found] == ([True] if said else [])


# ---- the terminal ---------------------------------------------------------------------------------


def in_a_terminal(session: Session, *options: object, command: list[str]) -> str:
    """What a terminal sees on stderr."""
    leader, follower = pty.openpty()
    process = session.start(*options, command=command, stderr=follower)
    os.close(follower)
    seen = b""
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
    process.communicate(timeout=20)
    os.close(leader)
    return seen.decode()


def test_progress_shows_the_current_interval_in_a_terminal_and_nowhere_else(session: Session) -> None:
    command = session.simulate("--misses", 0.25, "--model", "evil\x1b]0;x\x07\n::error::x")
    text = in_a_terminal(session, "--runs", 10, command=command)
    assert "round 1 of 10: candidate, load" not in text
    assert "round 2 of 10: candidate, seed 2" in text
    assert re.search(r"% of the budget used \| .+ \[\d.*%, \d.*%\]", text)
    assert text.endswith("\r\x1b[2K"), "the line is left empty for the report"
    assert re.findall(r"\x1b(?!\[2K)", text) == [], "no other control sequence gets through"
    other = session.home / "o"
    other.mkdir()
    plain = Session(other)
    assert plain.run("--runs", 2, command=plain.simulate()).stderr == ""


def test_the_log_of_a_run_holds_what_the_command_said(session: Session) -> None:
    script = "import sys; print('to out'); print('to err', file=sys.stderr); sys.exit(3)"
    session.run("--max-failures", 1, command=[sys.executable, "-c", script, "{out}"])
    (log,) = (session.folder / "logs").rglob("*.log")
    assert sorted(log.read_text().split("\n")) == ["", "to err", "to out"]
