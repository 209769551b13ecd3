"""A line of history says what its report says, and what does not hold is not read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from gate import _schemas, history
from gate.errors import InputError, UsageError
from gate.model import (
    HISTORY_VERSION,
    Acceptance,
    Counts,
    RecordedObjective,
    RecordedRun,
    SessionRecord,
)
from tests.conftest import ROOT

COMMIT, TIME = "a" * 40, "2027-01-12T08:00:00Z"
CHAT = ROOT / "examples" / "chat"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    from gate.cli import run

    path = tmp_path_factory.mktemp("history") / "report.json"
    assert (
        run(["check", str(CHAT / "good"), "--policy", str(CHAT / "slo.yaml"), "--json", str(path), "-q"]) == 0
    )
    return path.read_bytes()


@pytest.fixture(scope="module")
def record(report: bytes) -> SessionRecord:
    return history.record_of(report, COMMIT, "main", TIME, ["v1.2"])


def test_a_record_says_what_its_report_says(report: bytes, record: SessionRecord) -> None:
    document = json.loads(report)
    assert record.report_sha256 == hashlib.sha256(report).hexdigest()
    assert (record.commit, record.branch, record.time, record.tags) == (COMMIT, "main", TIME, ("v1.2",))
    assert (record.verdict.value, record.exit_code) == (document["verdict"], document["exit_code"])
    digests = {one["path"]: one["sha256"] for one in document["inputs"]}
    assert [run.sha256 for run in record.runs] == [digests[run["input"]] for run in document["runs"]]
    for ours, theirs in zip(record.runs, document["runs"], strict=True):
        assert msgspec.to_builtins(ours.counts) == theirs["counts"]
        assert ours.goodput == theirs["goodput"]["fraction"]
        for name, stats in theirs["metrics"].items():
            assert (name in ours.metrics) == (stats is not None)
            if stats:
                assert {key: stats[key] for key in ("n", "p50", "p90", "p99", "mean")} == msgspec.to_builtins(
                    ours.metrics[name]
                )
    said = [(one["id"], one["bound"], one["observed"], one["verdict"]) for one in document["objectives"]]
    assert [(one.id, one.bound, one.observed, one.verdict.value) for one in record.objectives] == said


def test_the_id_is_the_digest_of_the_line_without_it(record: SessionRecord) -> None:
    line = history.encode(record)
    found = json.loads(line)
    rest = b"{" + line.split(b",", 1)[1].removesuffix(b"\n")
    assert next(iter(found)) == "id"
    assert found["id"] == hashlib.sha256(rest).hexdigest()
    read = history.decode(line)
    assert msgspec.structs.replace(read, id="") == record
    assert history.name_of(read) == f"20270112T080000Z-{found['id']}.json"


def sealed(document: dict[str, Any]) -> bytes:
    """A line by whoever writes one, with its right id."""
    rest = json.dumps({key: value for key, value in document.items() if key != "id"}, separators=(",", ":"))
    id_ = hashlib.sha256(rest.encode()).hexdigest()
    return f'{{"id":"{id_}",{rest[1:]}\n'.encode()


def test_a_key_that_nobody_knows_is_no_damage(record: SessionRecord) -> None:
    document = json.loads(history.encode(record))
    read = history.decode(sealed({**document, "added_later": 1}))
    assert msgspec.structs.replace(read, id="") == record


COUNTS = ("attempted", "completed", "failed")
DAMAGED = {
    "counts": lambda doc: doc["runs"][0]["counts"].update(completed=1),
    "negative": lambda doc: doc["runs"][0].update(counts={"attempted": 1, "completed": 2, "failed": -1}),
    "falling": lambda doc: doc["runs"][0]["metrics"]["ttft_s"].update(p99=1e-9),
    "huge": lambda doc: doc["runs"][0]["metrics"]["ttft_s"].update(mean=1e300),
    "goodput": lambda doc: doc["runs"][0].update(goodput=1.5),
    "load": lambda doc: doc["runs"][0].update(load={}),
    "load of 0": lambda doc: doc["runs"][0].update(load={"request_rate": 0}),
    "time": lambda doc: doc.update(time="2027-13-12T08:00:00Z"),
    "day": lambda doc: doc.update(time="2027-02-30T08:00:00Z"),
    "commit": lambda doc: doc.update(commit="../../etc"),
    "digest": lambda doc: doc.update(report_sha256="A" * 64),
    "no runs": lambda doc: doc.update(runs=[]),
    "kind": lambda doc: doc.update(kind="other"),
    "verdict": lambda doc: doc.update(verdict="great"),
    "type": lambda doc: doc.update(exit_code="0"),
    "long": lambda doc: doc.update(branch="x" * 2_000),
    "huge counts": lambda doc: doc["runs"][0].update(counts={k: 10**400 * (k != "failed") for k in COUNTS}),
    "huge cap": lambda doc: doc["runs"][0].update(load={"request_rate": 1.0, "cap": 10**30}),
    "exit code": lambda doc: doc.update(exit_code=3),
    "metrics": lambda doc: doc["runs"][0].update(metrics={f"m{n}": {} for n in range(1_000)}),
    "runs": lambda doc: doc.update(runs=doc["runs"][:1] * 10_001),
    "newer": lambda doc: doc.update(schema_version=2),
    "failed, passed": lambda doc: doc["objectives"][1].update(verdict="fail"),
    "a failure that nothing failed": lambda doc: doc.update(verdict="fail", exit_code=1),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_line_that_cannot_be_true_is_refused_though_its_id_is_right(
    record: SessionRecord, damage: Any
) -> None:
    document = json.loads(history.encode(record))
    history.decode(sealed(document))
    damage(document)
    with pytest.raises(ValueError, match=r"\w"):
        history.decode(sealed(document))


@pytest.mark.parametrize("at", [0, 1, 50, 75, 400, -2, -1])
def test_a_line_whose_bytes_were_changed_or_cut_is_refused(record: SessionRecord, at: int) -> None:
    line = bytearray(history.encode(record))
    with pytest.raises(ValueError, match=r"\w"):
        history.decode(bytes(line[:at]))
    line[at] ^= 1
    with pytest.raises(ValueError, match=r"\w"):
        history.decode(bytes(line))


CONTRADICTIONS = {
    "a failed objective, passed": lambda doc: doc["objectives"][1].update(verdict="fail"),
    "a failure that nothing failed": lambda doc: doc.update(verdict="fail", exit_code=1),
    "an exit code of another verdict": lambda doc: doc.update(exit_code=1),
    "a run of no input": lambda doc: doc["runs"][0].update(input="elsewhere.json"),
    "counts": lambda doc: doc["runs"][0]["counts"].update(completed=1),
    "goodput": lambda doc: doc["runs"][0]["goodput"].update(fraction=0.5),
    "goodput of others": lambda doc: doc["runs"][0]["goodput"].update(attempted=7, good=7),
    "percentiles": lambda doc: doc["runs"][0]["metrics"]["ttft_s"].update(p99=1e-9),
    "a digest": lambda doc: doc["inputs"][0].update(sha256="none"),
}


@pytest.mark.parametrize("lie", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_report_that_contradicts_itself_is_not_recorded(report: bytes, lie: Any) -> None:
    document = json.loads(report)
    lie(document)
    with pytest.raises(InputError):
        history.record_of(json.dumps(document).encode(), COMMIT, "main", TIME)


def test_a_record_of_this_version_is_of_this_version(record: SessionRecord) -> None:
    assert record.schema_version == HISTORY_VERSION == 1


# ---- stores -------------------------------------------------------------------------------------


def test_what_is_added_twice_is_there_once(tmp_path: Path, record: SessionRecord) -> None:
    store = history.open_store(str(tmp_path / "new" / "store"))
    assert history.load(store) == history.History((), (), ())
    assert history.add(store, [record, record]) == (1, 1)
    later = msgspec.structs.replace(record, time="2027-01-13T08:00:00Z")
    assert history.add(store, [later]) == (0, 1)
    assert [msgspec.structs.replace(one, id="") for one in history.load(store).records] == [record]


def test_a_tag_that_comes_too_late_is_not_lost_in_silence(tmp_path: Path, record: SessionRecord) -> None:
    store = history.open_store(str(tmp_path))
    assert history.add(store, [record]) == (1, 0)
    assert history.add(store, [msgspec.structs.replace(record, tags=())]) == (0, 1)
    with pytest.raises(InputError, match=r"without the tag v1\.3"):
        history.add(store, [msgspec.structs.replace(record, tags=("v1.2", "v1.3"))])
    assert [one.tags for one in history.load(store).records] == [("v1.2",)]


def test_another_account_of_the_same_report_is_refused(tmp_path: Path, record: SessionRecord) -> None:
    store = history.open_store(str(tmp_path))
    first = record.runs[0]
    other = msgspec.structs.replace(first, counts=Counts(first.counts.attempted, 0, first.counts.attempted))  # type: ignore[union-attr]
    store.write(dict([named(msgspec.structs.replace(record, runs=(other, *record.runs[1:])))]))
    with pytest.raises(InputError, match="something else"):
        history.add(store, [record])


def named(line: Any) -> tuple[str, bytes]:
    data = history.encode(line)
    return history.name_of(history.decode(data)), data


def test_damaged_files_are_named_and_the_others_are_read(tmp_path: Path, record: SessionRecord) -> None:
    store = history.open_store(str(tmp_path))
    history.add(store, [record])
    name, data = named(msgspec.structs.replace(record, commit="b" * 40))
    (tmp_path / name).write_bytes(data[:-10])
    (tmp_path / name.replace("2027", "2026")).write_bytes(data)
    (tmp_path / name.replace("2027", "2025")).symlink_to("/etc/passwd")
    (tmp_path / name.replace("2027", "2024")).mkdir()
    (tmp_path / "README.md").write_text("hello")
    found = history.load(store)
    assert [one.commit for one in found.records] == [COMMIT]
    assert len(found.notes) == 5
    for told, what in zip(found.notes, ("regular", "regular", "name", "whole", "README.md"), strict=True):
        assert what in told


def test_a_session_is_accepted_by_a_line_of_its_own(tmp_path: Path, record: SessionRecord) -> None:
    store = history.open_store(str(tmp_path))
    run = next(run for run in record.runs if run.at_target)
    assert run.counts
    one, rest = run.counts, [other for other in record.runs if other is not run]
    failed = msgspec.structs.replace(
        run, counts=Counts(one.attempted, one.completed - 2, 2, one.cancelled, one.warmup)
    )
    history.add(store, [msgspec.structs.replace(record, runs=(failed, *rest))])
    found = history.load(store)
    assert found.why_left_out(found.records[0]) == "2 failed requests"
    accepted = Acceptance(
        schema_version=1, time=TIME, commit=COMMIT, sessions=(found.records[0].id,), reason="known"
    )
    assert history.add(store, [accepted]) == (1, 0)
    found = history.load(store)
    assert found.why_left_out(found.records[0]) == ""


@pytest.mark.parametrize("copied", ["as it is", "written anew", "packed"])
def test_what_was_measured_once_is_one_session(copied: str, tmp_path: Path, report: bytes) -> None:
    """Ten commits, ten reports, ten archives: one measurement, of each branch by itself."""
    store = history.open_store(str(tmp_path / "store"))
    for at in range(10):
        document = json.loads(report)
        if copied == "packed":  # gzip writes its time into the file
            for file in document["inputs"]:
                file["sha256"] = hashlib.sha256(f"{at}{file['sha256']}".encode()).hexdigest()
        data = report if copied == "as it is" else json.dumps(document, indent=at + 1).encode()
        for branch in ("main", "next"):
            record = history.record_of(data, f"{at}" * 40, branch, f"2027-01-{at + 1:02}T08:00:00Z")
            assert history.add(store, [record]) == (1, 0)
    found = history.load(store)
    assert len(found.records) == 20
    left = {(one.commit[0], one.branch): found.why_left_out(one) for one in found.records}
    assert {key for key, why in left.items() if not why} == {("9", "main"), ("9", "next")}
    assert set(left.values()) == {"", "holds a run of the session of 999999999999"}
    assert {(one.id, why) for one, why in history.Reading(store)} == {
        (one.id, found.why_left_out(one)) for one in found.records
    }


@pytest.mark.parametrize("before", [62, 63, 64])
def test_what_is_accepted_in_its_own_second_is_accepted_to_every_reader(
    before: int, tmp_path: Path, record: SessionRecord
) -> None:
    """Names of one second are in the order of their digests: eight reasons, some before and some after."""
    store = history.open_store(str(tmp_path))
    run = msgspec.structs.replace(next(run for run in record.runs if run.at_target), metrics={})
    lost = msgspec.structs.replace(run, counts=Counts(10, 8, 2, 0, 0))
    newer = [
        msgspec.structs.replace(
            record, report_sha256=f"{at:064x}", runs=(msgspec.structs.replace(run, sha256=f"{at:064x}"),)
        )
        for at in range(before)
    ]
    failed = msgspec.structs.replace(record, time="2027-01-01T00:00:00Z", commit="f" * 40, runs=(lost,))
    history.add(store, [*newer, failed])
    (found,) = (one for one, why in history.Reading(store) if why)
    for reason in "abcdefgh":
        accepted = Acceptance(
            schema_version=1, time=found.time, commit=found.commit, sessions=(found.id,), reason=reason
        )
        history.add(store, [accepted])
        assert [why for _, why in history.Reading(store)] == [""] * (before + 1)
        store.remove([history.name_of(one) for one in history.load(store).acceptances])


@pytest.mark.parametrize(("other", "counted"), [("nightly", 5), ("a policy of its own", 10)])
def test_another_profile_measures_nothing_anew(
    other: str, counted: int, tmp_path: Path, record: SessionRecord
) -> None:
    """Five sessions judged by two profiles are five; by two policies they are five of each."""
    store = history.open_store(str(tmp_path))
    policy = record.policy
    night = {"profile": other} if other == "nightly" else {"name": other}
    for at in range(5):
        runs = tuple(
            msgspec.structs.replace(
                run, sha256=hashlib.sha256(f"{at}{name}".encode()).hexdigest(), metrics={}
            )
            for name, run in enumerate(record.runs)
        )
        for asked in (
            msgspec.structs.replace(policy, profile="pr"),
            msgspec.structs.replace(policy, **night),
        ):
            digest = hashlib.sha256(f"{at}{asked}".encode()).hexdigest()
            one = msgspec.structs.replace(record, policy=asked, runs=runs, report_sha256=digest)
            history.add(store, [one])
    found = history.load(store)
    assert len(found.records) == 10
    assert sum(not found.why_left_out(one) for one in found.records) == counted


def test_what_is_no_utf_8_is_refused_with_a_sentence(tmp_path: Path, record: SessionRecord) -> None:
    """A name of the command line: the system hands bytes that are no UTF-8 as lone surrogates."""
    name = b"b\xff".decode("utf-8", "surrogateescape")
    accepted = Acceptance(
        schema_version=1, time=TIME, commit=COMMIT, sessions=(record.report_sha256,), reason=name
    )
    tagged, branched = (
        msgspec.structs.replace(record, **{key: said}) for key, said in (("tags", (name,)), ("branch", name))
    )
    for line in (accepted, tagged, branched):
        with pytest.raises(UsageError, match="is no UTF-8"):
            history.add(history.open_store(str(tmp_path / "store")), [line])
    assert not (tmp_path / "store").exists()


def test_two_records_of_a_report_are_one_to_every_reader(tmp_path: Path, record: SessionRecord) -> None:
    """Two jobs that add at once; the newer one is the session: what accepts and what prunes means both."""
    store = history.open_store(str(tmp_path))
    later = msgspec.structs.replace(record, time="2027-02-01T00:00:00Z")
    for one in (record, later):
        data = history.encode(one)
        store.write({history.name_of(history.decode(data)): data})
    found = history.load(store)
    assert [one.time for one in found.records] == [later.time]
    assert [one.time for one in found.twice] == [record.time]
    assert [one.id for one, _ in history.Reading(store)] == [found.records[0].id]
    assert found.notes == ("1 record is of a report that another record has; each counts once",)


# ---- the published schema -------------------------------------------------------------------------


def test_every_line_is_valid_against_the_published_schema(record: SessionRecord) -> None:
    schema = _schemas.load("history")
    Draft202012Validator.check_schema(schema)
    accepted = Acceptance(schema_version=1, time=TIME, commit=COMMIT, sessions=("a" * 64,), reason="known")
    for line in (record, accepted):
        Draft202012Validator(schema).validate(json.loads(history.encode(line)))


NOUNS = {
    "session": SessionRecord, "accept": Acceptance, "run": RecordedRun, "objective": RecordedObjective,
}  # fmt: skip


@pytest.mark.parametrize(("name", "noun"), NOUNS.items(), ids=NOUNS)
def test_the_schema_has_every_key_of_a_line_and_no_other(name: str, noun: Any) -> None:
    keys = set(_schemas.load("history")["$defs"][name]["properties"])
    assert keys - {"kind"} == set(noun.__struct_fields__)
