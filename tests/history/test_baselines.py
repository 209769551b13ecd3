"""Sessions remembered in a folder, a branch and an object store are one history and one baseline."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gate import history
from gate.errors import InputError
from gate.model import SessionRecord, Verdict
from tests.conftest import Process
from tests.history import sessions as made


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty reports, named by their session."""
    folder = tmp_path_factory.mktemp("sessions")
    for number, data in made.reports(folder):
        (folder / f"r{number:03}.json").write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def records(reports: Path) -> tuple[SessionRecord, ...]:
    return tuple(
        history.record_of(
            (reports / f"r{number:03}.json").read_bytes(), made.commit(number), "main", made.time(number)
        )
        for number in range(60)
    )


@pytest.fixture(scope="session")
def remembered(records: tuple[SessionRecord, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remembered") / "store"
    history.add(history.open_store(str(folder)), records)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the policy, outside of CI."""
    (tmp_path / "slo.yaml").write_bytes(made.POLICY)
    for name in ("GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITLAB_CI", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def bare(path: Path) -> str:
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return f"git:{path}#slo-history"


@pytest.fixture
def s3() -> Iterator[str]:
    """A bucket of a real server on loopback that speaks S3 (make test-remote)."""
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed: make test-remote")
    pytest.importorskip("s3fs", reason="s3fs is not installed: make test-remote")
    import os

    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    keys = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    before = {name: os.environ.get(name) for name in keys}
    os.environ |= keys | {"AWS_DEFAULT_REGION": "us-east-1"}
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().makedirs("bench", exist_ok=True)  # it outlives its server, in this process
    yield "s3://bench/history"
    for name, value in before.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value
    running.stop()


def listed(store: str, slo_gate: Process, cwd: Path) -> str:
    done = slo_gate("history", "list", "--store", store, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compared(store: str, slo_gate: Process, cwd: Path, *more: str) -> dict[str, Any]:
    """The report of a session of the slower build against a store."""
    (cwd / "new.csv").write_text(made.rows(999, 1.2))
    words = ("check", "new.csv", "--set", "hardware=H100", "--history", store, "--json", "out.json", *more)
    done = slo_gate(*words, cwd=cwd)
    assert done.returncode in (0, 1, 4), done.stderr
    found: dict[str, Any] = json.loads((cwd / "out.json").read_text())
    return found


def same(report: dict[str, Any], store: str) -> dict[str, Any]:
    """What the report says of its baseline, without the name of the store."""
    said = json.dumps(report["baseline"]).replace(history.open_store(store).name, "STORE")
    found: dict[str, Any] = json.loads(said)
    return found


def holds_the_same(store: str, records: Any, remembered: Path, slo_gate: Process, place: Path) -> None:
    opened = history.open_store(store)
    history.add(opened, records[:40])
    assert history.add(opened, records) == (20, 40)
    assert listed(store, slo_gate, place) == listed(str(remembered), slo_gate, place)
    folder = compared(str(remembered), slo_gate, place)
    assert same(compared(store, slo_gate, place), store) == same(folder, str(remembered))
    trends = [slo_gate("trend", name, "--format", "json", cwd=place) for name in (store, str(remembered))]
    assert trends[0].stdout == trends[1].stdout
    assert json.loads(trends[0].stdout)["sessions"] == 60


def test_a_branch_of_a_bare_repository_holds_the_same(
    records: Any, remembered: Path, slo_gate: Process, place: Path
) -> None:
    holds_the_same(bare(place / "bare.git"), records, remembered, slo_gate, place)


def test_a_bucket_holds_the_same(
    s3: str, records: Any, remembered: Path, slo_gate: Process, place: Path
) -> None:
    holds_the_same(s3, records, remembered, slo_gate, place)


def test_an_object_store_of_fsspec_holds_the_same(records: Any, remembered: Path, place: Path) -> None:
    pytest.importorskip("fsspec")
    store = history.open_store("memory://bench/history")
    history.add(store, records)
    assert history.load(store) == history.load(history.open_store(str(remembered)))
    store.remove(store.names())
    assert history.load(history.open_store("memory://bench/history")).records == ()


def test_a_place_that_can_hold_nothing_is_no_empty_store(s3: str) -> None:
    """A bucket with a slip in its name had no session, so that nothing was compared."""
    with pytest.raises(InputError, match="there is no bucket nobucket"):
        history.load(history.open_store("s3://nobucket/history"))
    assert history.load(history.open_store(f"{s3}/not-yet")).records == ()


def test_an_object_is_no_store() -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/slip/history.json", b"{}")
    with pytest.raises(InputError, match="it is a file, not a folder"):
        history.load(history.open_store("memory://slip/history.json"))


def test_the_baseline_is_the_last_thirty_of_the_base_branch(
    remembered: Path, reports: Path, slo_gate: Process, place: Path
) -> None:
    report = compared(str(remembered), slo_gate, place)
    baseline = report["baseline"]
    assert (baseline["kind"], baseline["sessions"]) == ("stored sessions", 30)
    # P90 TTFT of the last thirty sessions, by hand: nearest rank of each, then their geometric mean.
    values = []
    for number in range(30, 60):
        rows = (reports / f"s{number:03}.csv").read_text().splitlines()[1:]
        ttft = np.array([float(row.split(",")[1]) for row in rows])
        values.append(float(np.quantile(ttft, 0.9, method="inverted_cdf")))
    change = next(c for c in baseline["changes"] if (c["metric"], c["statistic"]) == ("ttft", "p90"))
    assert change["baseline_s"] == pytest.approx(float(np.exp(np.mean(np.log(values)))), rel=1e-9)
    (note,) = [note for note in report["notes"] if "compared with" in note]
    assert all(made.commit(number)[:12] in note for number in range(30, 60))
    assert made.commit(29)[:12] not in note.split(": ")[-1].split(", ")


def test_fewer_than_ten_sessions_only_warn(remembered: Path, slo_gate: Process, place: Path) -> None:
    ten, nine = (compared(str(remembered), slo_gate, place, "--last", n) for n in ("10", "9"))
    assert ten["baseline"]["kind"] == "stored sessions"
    assert nine["baseline"]["kind"] == "stored (advisory)"
    levels = [
        next(one["level"] for one in report["objectives"] if one["id"] == "regression.ttft.p90")
        for report in (ten, nine)
    ]
    assert levels == ["block", "warn"]


OTHERS = {
    "model": ("another model: model is other-70b", {"model": "other-70b"}),
    "failed": ("3 failed requests", {"failed": 3}),
    "slow": ("failed: ttft.p90", {"factor": 3.0}),
}


@pytest.mark.parametrize(("why", "how"), OTHERS.values(), ids=OTHERS.keys())
def test_other_sessions_are_named_and_left_out(
    why: str, how: dict[str, Any], remembered: Path, slo_gate: Process, place: Path
) -> None:
    shutil.copytree(remembered, place / "kept")
    how = {"factor": 1.0, **how}
    data = made.report(place / "odd.csv", made.rows(5, how.pop("factor"), **how))
    odd = history.record_of(data, "f" * 40, "main", made.time(70))
    history.add(history.open_store(str(place / "kept")), [odd])
    report = compared("kept", slo_gate, place)
    (note,) = [note for note in report["notes"] if "left out" in note]
    assert "ffffffffffff" in note
    assert why in note
    assert same(report, "kept") == same(compared(str(remembered), slo_gate, place), str(remembered))
    if "another" in why:
        return
    accepted = slo_gate("history", "accept", "fff", "--store", "kept", "--reason", "known", cwd=place)
    assert accepted.returncode == 0, accepted.stderr
    report = compared("kept", slo_gate, place)
    assert any("ffffffffffff" in one["path"] for one in report["baseline"]["inputs"])


def test_another_workload_of_the_policy_is_left_out(remembered: Path, slo_gate: Process, place: Path) -> None:
    text = made.POLICY.decode().replace("{load:", "{input_tokens: {mean: 103}, load:")
    (place / "slo.yaml").write_text(text)
    data = compared(str(remembered), slo_gate, place)
    assert data["baseline"]["sessions"] == 30  # what was not promised then is no difference
    shutil.copytree(remembered, place / "kept")
    asked = text.replace("mean: 103", "mean: 110, tolerance: 20%")
    odd = made.report(place / "odd.csv", made.rows(5, 1.0), asked.encode())
    history.add(
        history.open_store(str(place / "kept")), [history.record_of(odd, "f" * 40, "main", made.time(70))]
    )
    report = compared("kept", slo_gate, place)
    (note,) = [note for note in report["notes"] if "left out" in note]
    assert "another workload: the policy asked for input_tokens of mean 110 and asks for 103" in note


def test_a_session_is_no_baseline_of_itself(
    remembered: Path, reports: Path, slo_gate: Process, place: Path
) -> None:
    shutil.copy(reports / "s059.csv", place / "again.csv")
    words = (
        "check",
        "again.csv",
        "--set",
        "hardware=H100",
        "--history",
        str(remembered),
        "--json",
        "out.json",
    )
    slo_gate(*words, cwd=place)
    report = json.loads((place / "out.json").read_text())
    assert report["baseline"]["sessions"] == 30
    assert any("it is the session that is judged" in note for note in report["notes"])


def test_an_empty_store_is_no_baseline(slo_gate: Process, place: Path) -> None:
    for store in ("nothing", bare(place / "bare.git")):
        report = compared(store, slo_gate, place)
        assert report["baseline"] is None
        rule = next(one for one in report["objectives"] if one["id"] == "regression.ttft.p90")
        assert (rule["verdict"], "--baseline" in rule["reason"]) == ("skipped", True)
        assert any("no session of main compares: the store is empty" in note for note in report["notes"])
    (place / "slo.yaml").write_text(
        made.POLICY.decode().replace("regression:", "regression:\n  required: true")
    )
    assert compared("nothing", slo_gate, place)["exit_code"] == 4


def test_a_policy_with_a_history_is_not_told_to_name_a_baseline(slo_gate: Process, place: Path) -> None:
    (place / "slo.yaml").write_text(f"{made.POLICY.decode()}history: {{store: nothing}}\n")
    report = compared("nothing", slo_gate, place)
    rule = next(one for one in report["objectives"] if one["id"] == "regression.ttft.p90")
    assert rule["reason"] == "there is no baseline: the history gave none, the notes say why"
    assert any("the store is empty" in note for note in report["notes"])


def test_a_list_and_a_session_fit_on_a_terminal(
    records: tuple[SessionRecord, ...], slo_gate: Process, place: Path
) -> None:
    passed = records[0]
    run = passed.runs[0]
    more = [msgspec.structs.replace(run, sha256=f"{at:064x}", input=f"{at}.csv") for at in range(54)]
    rule = msgspec.structs.replace(
        passed.objectives[0], id="regression.tpot.p50", unit="ratio", observed=0.127, verdict=Verdict.FAIL
    )
    facts = {"verdict": Verdict.FAIL, "exit_code": 1, "objectives": (*passed.objectives, rule)}
    long = msgspec.structs.replace(passed, id="", commit="abcdef1", runs=tuple(more), **facts)
    history.add(history.open_store(str(place / "held")), [long])
    for words in (("list",), ("show", "abcdef1")):
        done = slo_gate("history", *words, "--store", "held", cwd=place, COLUMNS="80")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
        assert "failed: " in done.stdout
    assert "12.7%" in done.stdout
    assert lines[-1].endswith("more lines: -v shows them")
    whole = slo_gate("history", "show", "abcdef1", "--store", "held", "-v", cwd=place, COLUMNS="80").stdout
    assert whole.count(".csv") == 54


def test_an_empty_store_says_how_it_is_filled(slo_gate: Process, place: Path) -> None:
    hint = "`slo-gate history add --help` says how sessions get there"
    assert hint in slo_gate("history", "list", "--store", "held", cwd=place).stdout
    assert hint in slo_gate("history", "show", "abcdef1", "--store", "held", cwd=place).stderr


def test_the_policy_names_its_history(remembered: Path, slo_gate: Process, place: Path) -> None:
    (place / "slo.yaml").write_text(f"{made.POLICY.decode()}history: {{store: {remembered}, last: 12}}\n")
    (place / "new.csv").write_text(made.rows(999, 1.2))
    words = ("check", "new.csv", "--set", "hardware=H100", "--json", "out.json")
    slo_gate(*words, cwd=place)
    assert json.loads((place / "out.json").read_text())["baseline"]["sessions"] == 12
    slo_gate(*words, "--no-history", cwd=place)
    assert json.loads((place / "out.json").read_text())["baseline"] is None
    slo_gate(*words, "--last", "11", cwd=place)
    assert json.loads((place / "out.json").read_text())["baseline"]["sessions"] == 11
    (place / "old.csv").write_text(made.rows(3, 1.0))
    slo_gate(*words, "--baseline", "old.csv", cwd=place)
    assert json.loads((place / "out.json").read_text())["baseline"]["name"] == "old.csv"
    assert slo_gate("history", "list", cwd=place).stdout.endswith("for a baseline\n")


REFUSED = [
    ("--history", "s", "--baseline", "new.csv"),
    ("--history", "s", "--no-history"),
    ("--last", "3"),
    ("--base-branch", "main"),
    ("--history", "s", "--same-session"),
    ("--history", "s", "--max-growth", "10%"),
    ("--history", "git:../x"),
    ("--history", "git:-x"),
    ("--history", "git:a..b"),
    ("--history", "git:--upload-pack=x#y"),
    ("--history", "nope://x"),
    ("--history", "s", "--allow-baseline", "everything"),
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_at_odds_is_a_usage_error(words: tuple[str, ...], slo_gate: Process, place: Path) -> None:
    (place / "new.csv").write_text(made.rows(999, 1.2))
    done = slo_gate("check", "new.csv", *words, cwd=place)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("error: ")


def test_a_store_that_is_a_file_is_unreadable(slo_gate: Process, place: Path) -> None:
    (place / "file").write_text("x")
    (place / "new.csv").write_text(made.rows(999, 1.2))
    assert slo_gate("check", "new.csv", "--history", "file", cwd=place).returncode == 3
    assert slo_gate("history", "list", "--store", "file", cwd=place).returncode == 3


@pytest.mark.parametrize("store", ["http://127.0.0.1:9/history", "HTTPS://u:p@127.0.0.1:9/h?key=s3cret"])
def test_a_web_server_is_no_store(store: str, slo_gate: Process, place: Path) -> None:
    """It cannot list its files: no session found there would be no baseline, and green."""
    (place / "new.csv").write_text(made.rows(999, 1.2))
    for words in (("check", "new.csv", "--history", store), ("history", "list", "--store", store)):
        done = slo_gate(*words, cwd=place)
        assert done.returncode == 2
        assert "a web server cannot list its files" in done.stderr
        assert "s3cret" not in done.stderr


def test_no_session_is_of_the_future(reports: Path, slo_gate: Process, place: Path) -> None:
    """It would stay the newest for good, and with --last 1 the only one that is compared with."""
    said = ("--store", "kept", "--commit", "a" * 40, "--branch", "main")
    refused = slo_gate("history", "add", str(reports / "r000.json"), *said, "--time", "9999-12-31", cwd=place)
    assert (refused.returncode, "is in the future" in refused.stderr) == (2, True)
    assert not (place / "kept").exists()
    taken = slo_gate("history", "add", str(reports / "r000.json"), *said, "--time", "2020-01-31", cwd=place)
    assert taken.stdout == "kept: 1 session of aaaaaaaaaaaa (main) added\n"


@pytest.mark.parametrize("secret", ["user:s3cret@127.0.0.1:9/x.git", "127.0.0.1:9/x.git?token=a/s3cret"])
def test_no_secret_of_an_address_is_shown(secret: str, slo_gate: Process, place: Path) -> None:
    (place / "new.csv").write_text(made.rows(999, 1.2))
    store = f"git:https://{secret}#slo-history"
    for words in (
        ("check", "new.csv", "--history", store, "--json", "out.json"),
        ("history", "list", "--store", store),
    ):
        done = slo_gate(*words, cwd=place)
        assert done.returncode == 3
        assert "127.0.0.1" in done.stderr
        assert "s3cret" not in done.stdout + done.stderr + (place / "out.json").read_text()


def test_an_export_has_a_row_of_every_run(
    records: tuple[SessionRecord, ...], remembered: Path, slo_gate: Process, place: Path
) -> None:
    done = slo_gate("history", "export", "--format", "csv", "--store", str(remembered), cwd=place)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["commit"] for row in rows] == [made.commit(number) for number in range(60)]
    for row, record in zip(rows, records, strict=True):
        (run,) = record.runs
        assert float(row["ttft_p90_s"]) == run.metrics["ttft_s"].p90
        assert (int(row["attempted"]), float(row["error_rate"]), row["itl_p50_s"]) == (200, 0.0, "")
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    words = ("--format", "parquet", "--store", str(remembered), "--output", "out.parquet")
    assert slo_gate("history", "export", *words, cwd=place).returncode == 0
    table = pyarrow.read_table(place / "out.parquet").to_pydict()
    assert table["ttft_p90_s"] == [record.runs[0].metrics["ttft_s"].p90 for record in records]


def test_an_export_of_no_session_has_its_header(remembered: Path, slo_gate: Process, place: Path) -> None:
    words = ("history", "export", "--format", "csv", "--store")
    full, empty = (slo_gate(*words, store, cwd=place).stdout for store in (str(remembered), "empty"))
    assert empty == full.splitlines()[0] + "\n"


def test_a_formula_in_an_export_is_text(remembered: Path, slo_gate: Process, place: Path) -> None:
    shutil.copytree(remembered, place / "kept")
    data = made.report(place / "odd.csv", made.rows(5, 1.0, model="=HYPERLINK(x)"))
    odd = history.record_of(data, "f" * 40, "main", made.time(70), ["+cmd\x1b[31m"])
    history.add(history.open_store(str(place / "kept")), [odd])
    done = slo_gate("history", "export", "--format", "csv", "--store", "kept", cwd=place)
    row = list(csv.DictReader(io.StringIO(done.stdout)))[-1]
    assert (row["model"], row["tags"][:5]) == ("'=HYPERLINK(x)", "'+cmd")
    assert "\x1b" not in done.stdout


def test_one_measurement_under_ten_commits_is_one_session(
    records: tuple[SessionRecord, ...], slo_gate: Process, place: Path
) -> None:
    copies = [
        msgspec.structs.replace(
            records[0], commit=made.commit(at), report_sha256=f"{at:064x}", time=made.time(at)
        )
        for at in range(10)
    ]
    history.add(history.open_store(str(place / "kept")), copies)
    report = compared(str(place / "kept"), slo_gate, place)
    assert (report["baseline"]["kind"], report["baseline"]["sessions"]) == ("stored (advisory)", 1)
    newest = made.commit(9)[:12]
    assert any(note.endswith(f"holds a run of the session of {newest}") for note in report["notes"])
    done = slo_gate("trend", "kept", "--format", "json", cwd=place)
    assert json.loads(done.stdout)["sessions"] == 1
    done = slo_gate("history", "accept", made.commit(0), "--store", "kept", cwd=place)
    assert (done.returncode, f"accept {newest}" in done.stderr) == (2, True)


@pytest.mark.parametrize("fact", [{"model": "other-70b"}, {"interaction": "batch"}, {"input_tokens": 500.0}])
def test_what_the_results_do_not_say_is_not_mixed(
    fact: dict[str, Any], records: tuple[SessionRecord, ...], slo_gate: Process, place: Path
) -> None:
    """Of two benchmarks in turn the newer one is taken: of twelve sessions the six of odd numbers."""
    kept = []
    for at, record in enumerate(records[:12]):
        own = {"interaction": "streaming-chat", **({} if at % 2 else fact)}
        runs = tuple(msgspec.structs.replace(run, **own) for run in record.runs)
        kept.append(msgspec.structs.replace(record, runs=runs))
    history.add(history.open_store(str(place / "kept")), kept)
    rows = [line.split(",") for line in made.rows(999, 1.2).splitlines()]
    (place / "new.csv").write_text("\n".join(",".join((*row[:3], row[4], row[5], row[7])) for row in rows))
    words = ("check", "new.csv", "--history", "kept", "--set", "hardware=H100", "--json", "out.json")
    slo_gate(*words, cwd=place)
    report = json.loads((place / "out.json").read_text())
    assert report["baseline"]["sessions"] == 6
    (note,) = [note for note in report["notes"] if "compared with" in note]
    assert all((made.commit(at)[:12] in note) is bool(at % 2) for at in range(12))
    (note,) = [note for note in report["notes"] if "left out" in note]
    assert note.endswith(" newer sessions")


def test_a_commit_is_meant_before_an_id(
    records: tuple[SessionRecord, ...], slo_gate: Process, place: Path
) -> None:
    """The id of another session begins like the commit: every 4,096th does at three digits."""
    store = history.open_store(str(place / "kept"))
    history.add(store, [records[0]])
    begun = history.load(store).records[0].id[:3]
    history.add(store, [msgspec.structs.replace(records[1], commit=begun + "7" * 37)])
    done = slo_gate("history", "show", begun, "--store", "kept", cwd=place)
    assert done.stdout.startswith(begun + "7" * 37), done.stderr


def test_pruning_keeps_the_newest_of_each_branch(
    records: tuple[SessionRecord, ...], remembered: Path, slo_gate: Process, place: Path
) -> None:
    shutil.copytree(remembered, place / "kept")
    store = history.open_store(str(place / "kept"))
    (topic,) = (history.load(store).records[0],)
    history.add(store, [msgspec.structs.replace(topic, branch="topic", commit="e" * 40)])
    for number in (0, 59):  # what two jobs have added at once is no second session
        again = history.encode(msgspec.structs.replace(records[number], time="2027-01-01T00:00:00Z"))
        store.write({history.name_of(history.decode(again)): again})
    done = slo_gate("history", "prune", "--keep", "3", "--store", "kept", cwd=place)
    assert done.stdout == "kept: 57 sessions taken out, 4 kept\n"
    left = [(record.branch, record.commit) for record in history.load(store).records]
    assert left == [("topic", "e" * 40), *(("main", made.commit(number)) for number in (57, 58, 59))]
