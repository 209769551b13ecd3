"""What holds for every reader, over every fixture: who claims what, and that nothing breaks a reader."""

from __future__ import annotations

import fnmatch
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from gate import readers
from gate.errors import InputError, UsageError
from gate.model import METRICS, Requests, Run, Status
from gate.readers import knows
from gate.readers.formats import definitions, formats, running
from gate.readers.source import Source
from tests.conftest import FIXTURES, ROOT, SHARED

NAMES = [reader.NAME for reader in readers.READERS]
NEEDED = ("typical", "failures", "empty", "truncated")


def files(reader: str, *cases: str) -> list[Path]:
    """The result files of a reader's cases (all cases when none is named)."""
    folder = FIXTURES / reader
    chosen = [folder / case for case in cases] or sorted(folder.glob("*"))  # without it, tests are red
    return [p for case in chosen for p in sorted(case.rglob("*")) if p.is_file() and p.name != "ORIGIN.md"]


def source(path: Path) -> Source:
    return Source(path, path.name)


GOOD = [
    (name, path) for name in NAMES for path in files(name) if path.parts[-2] not in ("empty", "truncated")
]
BUSY_S = 0.25  # the machine that recorded was: so late may a client see what the server sent
ALL = [(name, path) for name in NAMES for path in files(name)]


@pytest.mark.parametrize("name", NAMES)
def test_every_reader_has_its_fixtures_and_says_where_they_are_from(name: str) -> None:
    cases = {case.name for case in (FIXTURES / name).iterdir()}
    assert set(NEEDED) <= cases
    for case in cases:
        assert (FIXTURES / name / case / "ORIGIN.md").is_file(), f"{name}/{case} has no ORIGIN.md"


@pytest.mark.parametrize("reader", readers.READERS, ids=NAMES)
def test_every_reader_has_tests_and_a_module_of_how_the_rules_are_broken(reader: readers.Reader) -> None:
    package = reader.__name__.rpartition(".")[2]
    tests = ROOT / "tests" / "readers"
    assert (tests / f"test_{package}.py").is_file()
    assert (tests / "rules" / f"{package}.py").is_file()


@pytest.mark.parametrize("reader", readers.READERS, ids=NAMES)
def test_people_are_told_of_every_reader(reader: readers.Reader) -> None:
    assert f"`{reader.NAME}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8").lower()
    assert any(name.lower() in changelog for name in (reader.NAME, reader.TITLE.split()[0]))


@pytest.mark.parametrize("reader", readers.READERS, ids=NAMES)
def test_every_reader_says_what_it_reads_in_cells_of_a_table(reader: readers.Reader) -> None:
    assert formats(reader)
    for one in formats(reader):
        assert any(kind in one.evidence for kind in ("requests", "histogram", "aggregate"))
        for cell in structs.astuple(one):
            assert cell
            assert cell == " ".join(cell.split())
            assert "|" not in cell
    assert all(cell and "|" not in cell for cell in running(reader))
    assert set(definitions(reader)) <= set(METRICS)


def tools_index() -> str:
    """The first table of docs/readers.md: how each tool is run and what of it is passed on."""
    lines = ["| tool | run it with | pass to `check` |", "|---|---|---|"]
    lines += [f"| [`{one.NAME}`](#{one.NAME}) | {' | '.join(running(one))} |" for one in readers.READERS]
    return "\n".join(lines)


def tools_sections() -> str:
    """A section a tool: its kinds of file, what each can prove, and what it gets wrong."""
    lines: list[str] = []
    for reader in readers.READERS:
        flags, files = running(reader)
        lines += [f"### {reader.NAME}", "", f"{reader.TITLE}. Run it with: {flags}. Pass: {files}."]
        for one in formats(reader):
            lines += ["", f"**Evidence: {one.evidence}.** {one.files}", ""]
            lines += [f"- Read: {one.reads}", f"- Cannot be judged: {one.cannot}", f"- Traps: {one.traps}"]
        lines.append("")
    return "\n".join(lines)


MADE = {"index": tools_index, "sections": tools_sections}


@pytest.mark.parametrize("part", MADE)
def test_what_the_docs_say_of_a_tool_is_what_its_reader_says(
    part: str, request: pytest.FixtureRequest
) -> None:
    path = ROOT / "docs" / "readers.md"
    begin, end = f"<!-- {part}: made from each reader's formats.yaml -->\n", "\n<!-- end -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    made, found, after = rest.partition(end)
    assert found
    if request.config.getoption("--update-golden"):
        path.write_text(f"{before}{begin}{MADE[part]()}{end}{after}", encoding="utf-8")
        return
    assert made == MADE[part](), "run pytest tests/test_readers.py --update-golden"


def test_a_start_imports_the_cards_of_the_readers_and_nothing_that_reads() -> None:
    def loaded(code: str) -> set[str]:
        code += "; import sys; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    ours = loaded("import numpy, msgspec, gate.readers") - loaded("import numpy, msgspec")
    cards = {reader.__name__ for reader in readers.READERS}
    shared = {
        f"gate.readers.{name}"
        for name in ("doc", "facts", "files", "kinds", "ours", "sidecar", "source", "stored", "twins")
    }
    assert {name for name in ours if name.startswith("gate.readers.")} == cards | shared
    heavy = {"csv", "dataclasses", "glob", "gzip", "hashlib", "json", "mmap", "sqlite3", "yaml"}
    assert not ours & heavy


def test_reader_names_are_unique_and_in_order() -> None:
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize(
    ("name", "path"), GOOD, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_fixture_is_claimed_by_its_own_reader_only(name: str, path: Path) -> None:
    claims = [r.NAME for r in readers.READERS if r is not readers.FALLBACK and knows(r, source(path))]
    if claims or name == readers.FALLBACK.NAME:
        assert claims == ([] if name == readers.FALLBACK.NAME else [name])
    else:  # a side file beside a result: known by its name, or refused
        assert readers.files.side_file(source(path))


@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_read_or_refused_as_a_set(name: str) -> None:
    for case in sorted((FIXTURES / name).iterdir()):
        try:
            reading = readers.read([str(case)])
        except InputError as error:
            assert error.message
            assert error.where
            assert case.name not in ("typical", "failures")
            continue
        assert {run.tool for run in reading.runs} != set()
        for run in reading.runs:
            consistent(run)


def consistent(run: Run) -> None:
    """What every Run promises, whatever the tool."""
    counts = run.counts
    assert counts.attempted == counts.completed + counts.failed
    assert min(counts.attempted, counts.failed, counts.cancelled, counts.warmup) >= 0
    assert run.sha256
    assert run.format
    rows = run.evidence
    if not isinstance(rows, Requests):
        return
    number = np.bincount(rows.status, minlength=4).tolist()
    assert [counts.completed, counts.failed, counts.cancelled, counts.warmup] == number
    done = rows.status == Status.COMPLETED
    for column in (rows.ttft_s, rows.e2e_s):
        if column is not None:
            assert len(column) == len(rows)
            assert (column[done] > 0).all()
            assert np.isfinite(column[done]).all()
    if rows.ttft_s is not None and rows.e2e_s is not None:
        assert (rows.e2e_s[done] >= rows.ttft_s[done] - 1e-5).all()


@pytest.mark.parametrize("name", sorted(path.parent.name for path in FIXTURES.glob("*/recipe")))
def test_what_a_recipe_s_command_recorded_is_what_the_server_served(name: str) -> None:
    """The server's own log of these requests is in ORIGIN.md: tests/streaming_server.py --log."""
    case = FIXTURES / name / "recipe"
    lines = (case / "ORIGIN.md").read_text("utf-8").splitlines()
    served = [json.loads(line) for line in lines if line.startswith("{")]
    (run,) = readers.read([str(case)]).runs
    rows = run.evidence
    assert isinstance(rows, Requests)
    assert run.counts.failed == 0
    assert len(rows) == run.counts.attempted <= len(served) <= len(rows) + 1  # a client may try one first
    for column in ("input_tokens", "output_tokens"):
        values = getattr(rows, column)
        assert not Counter(values.astype(int).tolist()) - Counter(one[column] for one in served)
    for column in ("ttft_s", "e2e_s"):  # the client's hold the server's and the way between them
        values = np.sort(getattr(rows, column))
        known = np.sort([one[column] for one in served])
        assert (values >= known[: len(values)] - 1e-3).all()
        assert np.median(values) - np.median(known) < BUSY_S


@pytest.mark.parametrize("name", NAMES)
def test_the_failures_case_holds_failures_or_says_that_they_are_invisible(name: str) -> None:
    runs = readers.read([str(FIXTURES / name / "failures")]).runs
    seen = sum(run.counts.failed for run in runs)
    said = any("fail" in note.lower() for run in runs for note in run.notes)
    blind = any("error_rate" in run.doubted for run in runs)
    assert seen or said or blind


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_or_truncated_case_is_never_a_run_with_completed_requests(name: str) -> None:
    for case in ("empty", "truncated"):
        try:
            runs = readers.read([str(FIXTURES / name / case)]).runs
        except InputError:
            continue
        assert case == "empty" or all(run.notes for run in runs)
        assert case == "truncated" or all(run.counts.completed == 0 for run in runs)


@pytest.mark.parametrize(
    ("name", "path"), ALL, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_file_cut_anywhere_gives_an_input_error_or_a_consistent_run(
    name: str, path: Path, tmp_path: Path
) -> None:
    stored = path.read_bytes()
    data = gzip.decompress(stored) if path.suffix == ".gz" else stored
    for share in (0.03, 0.37, 0.74, 0.98):
        cut = tmp_path / f"{share}" / path.name.removesuffix(".gz")
        cut.parent.mkdir()
        cut.write_bytes(data[: int(len(data) * share)])
        for tool in (None, name):
            try:
                runs = readers.read([str(cut)], tool=tool).runs
            except (InputError, UsageError):
                continue
            for run in runs:
                consistent(run)


def test_the_same_run_is_not_counted_twice_from_a_folder_and_its_file(tmp_path: Path) -> None:
    path = files("vllm", "typical")[0]
    once = readers.read([str(path)]).runs
    twice = readers.read([str(path), str(path.parent)])
    assert len(twice.runs) == len(once)
    assert any("same content" in note for note in twice.notes)


@pytest.mark.parametrize(
    "pattern", ["*.slo.json", "a*b*.json", "stage_?.json", "run[12]*.csv", "x.json", "*"]
)
@pytest.mark.parametrize(
    "name", ["a.slo.json", "ab.json", "axbx.json", "stage_1.json", "run1.csv", "run3.csv", "x.json"]
)
def test_side_files_are_known_by_patterns_as_the_shell_has_them(pattern: str, name: str) -> None:
    found = readers.files.side_file(source(Path(name)), {pattern: "known"})
    assert (found is not None) == fnmatch.fnmatchcase(name, pattern)


def test_the_same_run_compressed_is_no_second_run(tmp_path: Path) -> None:
    data = gzip.decompress(files("vllm", "typical")[0].read_bytes())
    (tmp_path / "a.json").write_bytes(data)
    for level in (1, 6, 9):
        (tmp_path / f"a{level}.json.gz").write_bytes(gzip.compress(data, level))
    reading = readers.read([str(tmp_path)])
    assert len(reading.runs) == 1
    assert sum("same content" in note for note in reading.notes) == 3


def copies(folder: Path, n: int, **changes: object) -> None:
    document = json.loads(gzip.decompress(files("vllm", "typical")[0].read_bytes()))
    for i in range(n):
        (folder / f"{i:02}.json").write_text(json.dumps({**document, **changes, "copy": i}), encoding="ascii")


def test_thirty_copies_of_a_run_are_one_run_whatever_else_is_in_them(tmp_path: Path) -> None:
    copies(tmp_path, 30)
    reading = readers.read([str(tmp_path)])
    assert (len(reading.runs), reading.runs[0].counts.attempted) == (1, 120)
    (note,) = [
        note for note in reading.notes if "a run is not counted, its measurement is the same as" in note
    ]
    assert note.startswith("29 files, each: ")


def test_five_copies_appended_to_one_file_are_one_run(tmp_path: Path) -> None:
    data = gzip.decompress(files("vllm", "typical")[0].read_bytes())
    (tmp_path / "r.json").write_bytes(b"\n".join([data] * 5))
    reading = readers.read([str(tmp_path / "r.json")])
    assert len(reading.runs) == 1
    assert any("again in the same file" in note for note in reading.notes)


def test_copies_of_an_aggregate_are_one_run(tmp_path: Path) -> None:
    document = json.loads(files("vllm", "aggregate")[0].read_text(encoding="utf-8"))
    for i in range(6):
        (tmp_path / f"{i}.json").write_text(json.dumps({**document, "copy": i}), encoding="ascii")
    assert len(readers.read([str(tmp_path)]).runs) == 1


def aggregate(folder: Path, name: str, **changes: object) -> None:
    document = json.loads(files("vllm", "aggregate")[0].read_text(encoding="utf-8"))
    document |= {"num_prompts": document["completed"] + document["failed"], **changes}
    document.pop("latencies", None)
    (folder / f"{name}.json").write_text(json.dumps(document), encoding="ascii")


def scaled(factor: float) -> dict[str, object]:
    """A run whose latencies are `factor` times as long."""
    document = json.loads(files("vllm", "aggregate")[0].read_text(encoding="utf-8"))
    return {key: value * factor for key, value in document.items() if key.endswith("_ms")}


def summed(times: int) -> dict[str, object]:
    document = json.loads(files("vllm", "aggregate")[0].read_text(encoding="utf-8"))
    n = document["completed"] + document["failed"]
    kinds = ("completed", "failed", "total_input_tokens", "total_output_tokens")
    return {"num_prompts": n * times, **{kind: document[kind] * times for kind in kinds}}


def test_a_merge_beside_its_parts_is_not_counted(tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 1.1, 1.2)):
        aggregate(tmp_path, f"part{number}", **scaled(factor))
    aggregate(tmp_path, "all", **scaled(1.1), **summed(3))
    reading = readers.read([str(tmp_path)])
    assert {Path(run.input).name for run in reading.runs} == {"part0.json", "part1.json", "part2.json"}
    assert any("all.json: a run is not counted, its counts are the sums" in note for note in reading.notes)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_longer_run_with_statistics_of_its_own_is_no_merge(factor: float, tmp_path: Path) -> None:
    for number, other in enumerate((1.0, 1.1)):
        aggregate(tmp_path, f"part{number}", **scaled(other))
    aggregate(tmp_path, "longer", **scaled(factor), **summed(2))
    assert len(readers.read([str(tmp_path)]).runs) == 3


def test_a_link_to_a_folder_is_followed_and_a_circle_ends(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "real" / "deep").mkdir(parents=True)
    aggregate(tmp_path / "results", "a")
    aggregate(tmp_path / "real" / "deep", "b", **scaled(2.0))
    (tmp_path / "results" / "run2").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "again").symlink_to(tmp_path / "results")
    runs = readers.read([str(tmp_path / "results")]).runs
    assert sorted(Path(run.input).name for run in runs) == ["a.json", "b.json"]


def test_runs_that_were_measured_twice_stay_two() -> None:
    folder = ROOT / "examples" / "chat" / "good"
    assert len(readers.read([str(folder)]).runs) == 54


def test_a_folder_of_side_files_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text("version: 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="no result among the files"):
        readers.read([str(tmp_path)])


def test_an_unknown_result_in_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(
        '{"ttft_s": 0.1, "e2e_s": 1, "output_tokens": 9}\n', encoding="utf-8"
    )
    (tmp_path / "other.json").write_text('{"something": "else"}', encoding="utf-8")
    with pytest.raises(InputError, match="no reader knows it") as caught:
        readers.read([str(tmp_path)])
    assert caught.value.where.endswith("other.json")


def test_several_claims_are_an_error_that_names_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    path = files("vllm", "typical")[0]
    twins = tuple(r for r in readers.READERS if r.NAME in ("vllm", "llmperf"))
    monkeypatch.setattr(readers.READERS[NAMES.index("llmperf")], "sniff", lambda _: True, raising=False)
    monkeypatch.setattr(readers, "READERS", twins)
    with pytest.raises(InputError, match="several readers claim this file: llmperf, vllm") as caught:
        readers.claim(source(path))
    assert "--tool" in caught.value.hint


# ---- the shared folders -------------------------------------------------------------------


def shared_files() -> list[Path]:
    return sorted(
        p for folder in ("results", "public-results") for p in (SHARED / folder).rglob("*") if p.is_file()
    )


def test_every_shared_file_is_claimed_by_one_reader_or_refused_with_a_reason(shared: Path) -> None:
    for path in shared_files():
        try:
            reader = readers.claim(source(path))
        except InputError as error:
            assert error.message, path
            assert error.hint, path
            continue
        assert reader.NAME in NAMES


def test_no_shared_file_breaks_the_reader_that_claims_it(shared: Path) -> None:
    for path in shared_files():
        if path.stat().st_size > 4_000_000:
            continue
        try:
            runs = readers.read([str(path)]).runs
        except InputError:
            continue
        for run in runs:
            consistent(run)


def test_half_a_surrogate_pair_in_a_text_does_not_cost_the_file(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(files("vllm", "typical")[0].read_bytes()))
    for text in ("cut inside \ud83d", "\udc00 first", "whole \U0001f600 and cut \ud83d"):
        document["generated_texts"][0] = text
        path = tmp_path / "result.json"
        path.write_text(json.dumps(document), encoding="ascii")
        assert readers.read([str(path)]).runs[0].counts.completed == 120


@pytest.mark.parametrize("name", ["run.json", "run.JSON", "run.ndjson"])
def test_a_failing_run_in_a_folder_is_read_whatever_the_letters_of_its_name(
    name: str, tmp_path: Path
) -> None:
    row = {"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 9, "error": None}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / name).write_text(
        json.dumps({**row, "error": "boom"}) + "\n" + json.dumps(row), encoding="utf-8"
    )
    assert sum(run.counts.failed for run in readers.read([str(tmp_path)]).runs) == 1


def test_a_byte_order_mark_is_no_part_of_a_result(tmp_path: Path) -> None:
    data = gzip.decompress(files("vllm", "typical")[0].read_bytes())
    (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf" + data)
    assert readers.read([str(tmp_path / "r.json")]).runs[0].counts.completed == 120


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes as files")
@pytest.mark.parametrize("kind", ["link", "pipe", "packed"])
def test_what_cannot_be_read_in_a_folder_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    shutil.copy(files("vllm", "typical")[0], tmp_path / "a.json.gz")
    bad = tmp_path / ("run.json.zst" if kind == "packed" else "run.json")
    if kind == "link":
        bad.symlink_to(tmp_path / "nowhere.json")
    elif kind == "pipe":
        os.mkfifo(bad)
    else:
        bad.write_bytes(b"packed")
    with pytest.raises(InputError) as caught:
        readers.read([str(tmp_path)])
    assert caught.value.where.endswith(bad.name)


def test_many_files_of_one_kind_that_are_no_results_are_one_note(tmp_path: Path) -> None:
    row = {"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 10}
    for number in range(7):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        (folder / "rows.jsonl").write_text(json.dumps({**row, "e2e_s": 1 + number}) + "\n")
        (folder / "rows.jsonl.slo.json").write_text("{}")
    notes = [note for note in readers.read([str(tmp_path)]).notes if "skipped" in note]
    assert len(notes) == 1
    assert notes[0].startswith("7 files, each: skipped, a sidecar of slo-gate run, not a result: ")
    assert notes[0].endswith(" and 2 more")


@pytest.mark.parametrize("reader", sorted(path.parent.name for path in FIXTURES.glob("*/typical")))
def test_what_is_said_of_many_files_is_one_note_for_every_reader(reader: str, tmp_path: Path) -> None:
    """Twenty folders with a run each, and all the files that its tool writes, some more than once."""
    for number in range(20):
        shutil.copytree(FIXTURES / reader / "typical", tmp_path / f"run{number}")
    for path in [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"]:
        bare, packed = path.read_bytes(), path.suffix == ".gz"
        more = b"\n" * int(path.relative_to(tmp_path).parts[0].removeprefix("run"))  # no two alike
        path.unlink()
        path.with_suffix("" if packed else path.suffix).write_bytes(
            (gzip.decompress(bare) if packed else bare) + more
        )
    notes = readers.read([str(tmp_path)]).notes
    files = sum(path.is_file() for path in tmp_path.rglob("*"))
    assert len(notes) <= 6, f"{len(notes)} notes of {files} files:\n" + "\n".join(notes)
