"""The pages for people who start: their commands are run, their figures are those that are printed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import yaml

from gate import policy
from gate.model import Kind
from gate.recipe import TOOLS
from gate.recipe.init import INTERACTIONS, Answers, policy_text
from tests.conftest import ROOT, Process
from tests.synth.test_docs import BLOCK, commands, shows

DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", ["getting-started.md", "chunked-prefill.md", "choosing-bounds.md"])
def test_what_the_page_shows_is_what_its_commands_print(name: str, slo_gate: Process, tmp_path: Path) -> None:
    ran = 0
    for words, shown in commands(DOCS / name):
        if words[0] == "cat":
            (tmp_path / words[1]).write_text("\n".join(shown) + "\n", encoding="utf-8")
            continue
        assert words[0] == "slo-gate"
        if any(word.startswith("examples/") for word in words):
            continue  # tests/test_docs.py runs it, in the repository
        done = slo_gate(*words[1:])
        assert done.returncode in (0, 1, 4), done.stderr
        assert shows(shown, done.stdout.splitlines()), f"{words} prints:\n{done.stdout}"
        ran += 1
    assert ran >= 1


def test_chunked_prefill_says_in_words_what_was_printed() -> None:
    text = (DOCS / "chunked-prefill.md").read_text(encoding="utf-8")
    shown = "\n".join(BLOCK.findall(text))
    prose = BLOCK.sub("", text)
    figures = re.findall(r"\*\*([\d.,]+ m?s)\*\*", prose)
    assert len(figures) >= 12
    for figure in figures:
        assert figure in shown, figure

    def value(label: str) -> float:
        return float(re.search(label, shown)[1])  # type: ignore[index]

    chunked, whole = value(r"TPOT (17\.\d+) ms, ITL"), value(r"TPOT (19\.\d+) ms, ITL")
    assert f"{(whole / chunked - 1) * 100:.0f} %" in prose
    assert f"{203.5 / 31.16:.1f} times worse" in prose
    assert f"P99 TTFT is {0.8051 / 0.3066:.1f} times as long" in prose
    assert "26,609 of 549,730 gaps" in prose
    assert 549_730 - 523_121 == 26_609


def test_the_table_of_bounds_is_what_init_writes() -> None:
    text = (DOCS / "choosing-bounds.md").read_text(encoding="utf-8")
    rows = {
        cells[0].strip("` "): [cell.strip() for cell in cells[2:5]]
        for line in text.splitlines()
        if re.match(r"\| `[a-z]", line) and len(cells := line.strip("|").split("|")) == 5
    }
    assert set(rows) == set(INTERACTIONS)
    for name, cells in rows.items():
        loaded = policy.parse(policy_text(Answers(name, "urn:x")).encode(), "x", profile="release")
        p99 = {
            o.metric: o.bound for o in loaded.objectives if o.kind is Kind.LATENCY and o.statistic == "p99"
        }
        for metric, cell in zip(("ttft", "tpot", "e2e"), cells, strict=True):
            number = re.match(r"([\d.]+) (m?s)", cell)
            said = float(number[1]) * (1e-3 if number[2] == "ms" else 1) if number else None
            assert said == pytest.approx(p99.get(metric)), (name, metric)


def test_the_table_of_tools_names_every_tool() -> None:
    text = (DOCS / "recipes.md").read_text(encoding="utf-8")
    assert {name for name in TOOLS if f"| `{name}` |" in text} == set(TOOLS)
    for name, tool in TOOLS.items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        assert ("open" in row.split("|")[2]) is tool.open_loop


def test_what_can_never_pass_is_said_as_the_page_shows_it(slo_gate: Process) -> None:
    (shown,) = [one for one in BLOCK.findall((DOCS / "recipes.md").read_text()) if "never passes" in one]
    command, *lines = shown.strip("`").removeprefix("console").strip().splitlines()
    done = slo_gate(*command.removeprefix("$ slo-gate ").removesuffix(" >bench.sh").split())
    assert done.stderr.splitlines() == lines


def test_the_sample_sizes_in_the_docs_are_those_of_the_binomial() -> None:
    from scipy.stats import norm, t

    text = (DOCS / "statistics-for-engineers.md").read_text(encoding="utf-8")
    for label, share in (("P90", 0.90), ("goodput 95 %", 0.95), ("goodput 99 %", 0.99), ("P99", 0.99)):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {label} |")]
        said = [int(cell) for cell in row.strip("|").split("|")[1:]]
        for number, df in zip(said, (9, 4, 29), strict=True):
            # mid-P: half of share^n is 0.025; goodput of one run is asked at 95 %, without the t correction
            least = math.log(0.05) / math.log(share) * (t.ppf(0.975, df) / norm.ppf(0.975)) ** 2
            if label.startswith("goodput") and df == 9:
                least = math.log(0.1) / math.log(share)
            assert number == max(100, math.ceil(least))


def test_yaml_in_the_pages_is_yaml() -> None:
    for name in ("choosing-bounds.md", "getting-started.md", "recipes.md"):
        for block in re.findall(r"^```yaml\n(.*?)^```$", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE):
            assert yaml.safe_load(block)


def test_the_verdict_that_is_read_line_by_line_is_the_demo_s(slo_gate: Process) -> None:
    text = (DOCS / "reading-a-verdict.md").read_text(encoding="utf-8")
    printed = slo_gate("check", "chat/regressed", "--policy", "chat/slo.yaml", cwd=ROOT / "examples").stdout
    headline, *rule = [
        line.strip()
        for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        if not kind
        for line in block.splitlines()
    ]
    assert headline == printed.splitlines()[0]
    flat = " ".join(printed.split())
    assert len(rule) == 2
    for line in rule:
        assert " ".join(line.split()) in flat


def test_the_p99_of_two_hundred_is_their_third_worst() -> None:
    import numpy as np

    values = np.arange(200.0)
    assert np.percentile(values, 99, method="inverted_cdf") == sorted(values)[-3]
