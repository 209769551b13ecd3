"""The comment of a check with a history shows the sessions it was compared with, oldest first."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gate import history
from tests.conftest import Process
from tests.history import sessions

NUMBER = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comment")
    records = [
        history.record_of(data, sessions.commit(at), "main", sessions.time(at))
        for at, data in sessions.reports(folder, NUMBER)
    ]
    history.add(history.open_store(str(folder / "store")), records)
    (folder / "new.csv").write_text(sessions.rows(999, 1.3), encoding="utf-8")
    (folder / "slo.yaml").write_bytes(sessions.POLICY)
    return folder


def test_the_sessions_are_those_of_the_store_in_their_order(place: Path, slo_gate: Process) -> None:
    words = ("check", "new.csv", "--history", "store", "--set", "hardware=H100")
    done = slo_gate(*words, "--format", "json", cwd=place)
    document = json.loads(done.stdout)
    changes = {(one["metric"], one["statistic"]): one for one in document["baseline"]["changes"]}
    stored = history.load(history.open_store(str(place / "store"))).records
    for (metric, statistic), one in changes.items():
        expected = [getattr(record.runs[0].metrics[f"{metric}_s"], statistic) for record in stored]
        assert one["past_s"] == pytest.approx(expected)
        logs = [math.log(value) for value in expected]
        assert one["baseline_s"] == pytest.approx(math.exp(sum(logs) / len(logs)), rel=0.02)


def test_the_comment_shows_them_also_from_a_saved_report(place: Path, slo_gate: Process) -> None:
    words = ("check", "new.csv", "--history", "store", "--set", "hardware=H100", "--json", "report.json")
    shown = slo_gate(*words, "--format", "markdown", cwd=place).stdout
    row = next(line for line in shown.splitlines() if line.startswith("| P90 TTFT"))
    drawn = row.split("|")[-2].strip()
    assert (len(drawn), drawn[-2:]) == (NUMBER + 2, " \N{FULL BLOCK}")
    last = slo_gate(*words, "--last", "5", "--format", "markdown", cwd=place).stdout
    row = next(line for line in last.splitlines() if line.startswith("| P90 TTFT"))
    assert len(row.split("|")[-2].strip()) == 5 + 2


def test_a_baseline_of_files_has_no_order_and_is_not_drawn(place: Path, slo_gate: Process) -> None:
    words = ("check", "new.csv", "--baseline", "s001.csv", "--set", "hardware=H100")
    assert "sessions, then head" not in slo_gate(*words, "--format", "markdown", cwd=place).stdout
