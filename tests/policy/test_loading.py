"""What a policy becomes: objectives, ids, units, defaults, profiles."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import date
from pathlib import Path

import msgspec
import pytest

from gate import policy
from gate.errors import Exit, PolicyError
from gate.model import Condition, Kind, Level, Load, Policy, TokenRule

ROOT = Path(__file__).resolve().parents[2]

# The policy of DESIGN section 3, as it stands there.
DESIGN = """\
# yaml-language-server: $schema=<published id>
version: 1
name: chat-70b
undecided: block                                  # block | lean | allow: section 4
workload:
  model: meta-llama/Llama-3.3-70B-Instruct        # glob
  hardware: 8xH100
  interaction: streaming-chat                     # one-shot, voice, agent, code-completion, batch
  load: {concurrency: 64, sweep: [25%, 50%, 100%, 150%]}
  input_tokens:  {mean: 800, stddev: 300, tolerance: 10%}
  output_tokens: {mean: 150, tolerance: 10%}
slo:
  ttft: {p99: 800ms, p90: {max: 500ms, level: warn}}
  tpot: {p99: 25ms}
  e2e:  {p99: {max: 3s, when: output_tokens < 300}}
goodput:
  min: 99%
  request: {ttft: 800ms, tpot: 25ms, e2e: {max: 3s, when: output_tokens < 300}}
limits:
  error_rate: {max: 1%}
  headroom:   {max_drop: 5pt, from: 100%, to: 150%, level: warn}   # pt: percentage points
  throughput: {min: 2000 tok/s}                   # beside goodput, never instead of it
regression:
  ttft: {p99: {max: 10%, and_at_least: 20ms}}
evidence:
  confidence: 95%
  decide: confident                               # or point: the naked estimate, shown as such
  runs: {min: 30}
  requests_per_run: {min: 100}
  tool: {version: required, level: warn}
  prompts: varied
  warmup: auto                                    # default 0
semantics: {cancelled: exclude, single_token_tpot: ignore}   # or miss
waivers:
  - {objective: tpot.p99, until: 2027-01-31, owner: serving, reason: "kernel fix in flight"}
profiles:                                         # --profile pr: deep-merged
  pr:
    undecided: lean
    goodput: {min: 95%}
    evidence: {runs: {min: 5}, requests_per_run: {min: 100}}
    workload: {load: {concurrency: 64, sweep: null}}
"""


def parse(text: str, profile: str | None = None, path: str = "slo.yaml") -> Policy:
    return policy.parse(text.encode(), path, profile=profile)


def slo(text: str) -> str:
    return f"version: 1\nslo: {text}\n"


def ids(loaded: Policy) -> list[str]:
    return [o.id for o in loaded.objectives]


def test_the_policy_of_the_design_page_loads_with_its_ids_in_its_order() -> None:
    assert ids(parse(DESIGN)) == [
        "workload.model",
        "workload.hardware",
        "workload.interaction",
        "workload.load",
        "workload.sweep",
        "workload.input_tokens",
        "workload.output_tokens",
        "ttft.p99",
        "ttft.p90",
        "tpot.p99",
        "e2e.p99[output_tokens<300]",
        "goodput",
        "error_rate",
        "headroom",
        "throughput",
        "regression.ttft.p99",
        "evidence.runs",
        "evidence.requests_per_run",
        "evidence.tool",
        "evidence.prompts",
    ]


@pytest.mark.parametrize(
    ("id_", "kind", "level", "operator", "bound", "unit", "share", "line"),
    [
        ("ttft.p99", Kind.LATENCY, Level.BLOCK, "<=", 0.8, "s", 0.99, 13),
        ("ttft.p90", Kind.LATENCY, Level.WARN, "<=", 0.5, "s", 0.90, 13),
        ("tpot.p99", Kind.LATENCY, Level.BLOCK, "<=", 0.025, "s", 0.99, 14),
        ("e2e.p99[output_tokens<300]", Kind.LATENCY, Level.BLOCK, "<=", 3.0, "s", 0.99, 15),
        ("goodput", Kind.GOODPUT, Level.BLOCK, ">=", 0.99, "share", 0.99, 17),
        ("error_rate", Kind.ERROR_RATE, Level.BLOCK, "<=", 0.01, "share", None, 20),
        ("headroom", Kind.HEADROOM, Level.WARN, "<=", 0.05, "points", None, 21),
        ("throughput", Kind.THROUGHPUT, Level.BLOCK, ">=", 2000.0, "tok/s", None, 22),
        ("regression.ttft.p99", Kind.REGRESSION, Level.BLOCK, "<=", 0.1, "ratio", 0.99, 24),
        ("evidence.runs", Kind.RULE, Level.BLOCK, ">=", 30.0, "count", None, 28),
    ],
)
def test_an_objective_has_base_units_and_the_line_of_its_value(
    id_: str,
    kind: Kind,
    level: Level,
    operator: str,
    bound: float,
    unit: str,
    share: float | None,
    line: int,
) -> None:
    found = next(o for o in parse(DESIGN).objectives if o.id == id_)
    assert (found.kind, found.level, found.operator, found.bound, found.unit, found.share, found.line) == (
        kind,
        level,
        operator,
        bound,
        unit,
        share,
        line,
    )


@pytest.mark.parametrize(
    ("id_", "kind", "expected"),
    [
        ("workload.model", Kind.RULE, "meta-llama/Llama-3.3-70B-Instruct"),
        ("workload.hardware", Kind.RULE, "8xH100"),
        ("workload.interaction", Kind.RULE, "streaming-chat"),
        ("workload.load", Kind.RULE, "concurrency 64"),
        ("workload.sweep", Kind.RULE, "runs at 25%, 50%, 100%, 150% of concurrency 64"),
        ("workload.input_tokens", Kind.RULE, "mean 800 within 10%, stddev 300"),
        ("workload.output_tokens", Kind.RULE, "mean 150 within 10%"),
        ("evidence.runs", Kind.RULE, "at least 30 runs"),
        ("evidence.requests_per_run", Kind.RULE, "at least 100 requests per run"),
        ("evidence.tool", Kind.RULE, "version stated"),
        ("evidence.prompts", Kind.RULE, "varied prompts"),
        ("headroom", Kind.HEADROOM, "goodput drops by at most 5 pt from 100% to 150% of the load"),
        (
            "regression.ttft.p99",
            Kind.REGRESSION,
            "P99 TTFT grows by at most 10% or by less than 20 ms against the baseline",
        ),
    ],
)
def test_a_rule_says_its_demand_in_words(id_: str, kind: Kind, expected: str) -> None:
    found = next(o for o in parse(DESIGN).objectives if o.id == id_)
    assert (found.kind, found.expected) == (kind, expected)


def test_sections_other_than_objectives_are_kept() -> None:
    loaded = parse(DESIGN)
    assert loaded.name == "chat-70b"
    assert loaded.undecided == "block"
    assert loaded.workload.target == Load(concurrency=64)
    assert loaded.workload.sweep == (0.25, 0.5, 1.0, 1.5)
    assert loaded.workload.input_tokens == TokenRule(mean=800.0, stddev=300.0, tolerance=0.1)
    assert loaded.workload.output_tokens == TokenRule(mean=150.0, stddev=None, tolerance=0.1)
    assert msgspec.structs.asdict(loaded.evidence) == {
        "confidence": 0.95,
        "decide": "confident",
        "run_spread": 0.05,
        "runs_min": 30,
        "requests_per_run_min": 100,
        "tool_version_required": True,
        "tool_name": None,
        "warmup": "auto",
        "attempted": None,
        "ignore": (),
    }
    (waiver,) = loaded.waivers
    assert (waiver.objective, waiver.until, waiver.owner, waiver.line) == (
        "tpot.p99",
        date(2027, 1, 31),
        "serving",
        35,
    )


def test_the_path_and_the_hash_of_the_bytes_are_kept() -> None:
    loaded = parse(DESIGN, path="ci/slo.yaml")
    assert loaded.path == "ci/slo.yaml"
    assert loaded.sha256 == hashlib.sha256(DESIGN.encode()).hexdigest()


@pytest.mark.parametrize(
    ("path", "name"), [("a/chat.yaml", "chat"), (".slo-gate.yaml", "slo-gate"), ("slo.yaml", "slo")]
)
def test_a_policy_without_a_name_has_the_name_of_its_file(path: str, name: str) -> None:
    assert parse(slo("{ttft: {p99: 1s}}"), path=path).name == name


@pytest.mark.parametrize(
    ("text", "share"), [("p99.9", 0.999), ("p50", 0.5), ("p99.99", 0.9999), ("p0.1", 0.001), ("p7", 0.07)]
)
def test_a_percentile_is_its_share_exactly(text: str, share: float) -> None:
    (objective,) = parse(slo(f"{{ttft: {{{text}: 1s}}}}")).objectives
    assert objective.share == share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("800ms", 0.8), ("800 ms", 0.8), ("1.5s", 1.5), ("2min", 120.0), ("250us", 0.00025), ("45 µs", 4.5e-5)],
)
def test_a_time_is_read_in_any_unit(text: str, seconds: float) -> None:
    (objective,) = parse(slo(f"{{ttft: {{p99: {text}}}}}")).objectives
    assert objective.bound == pytest.approx(seconds, rel=1e-15)


def test_a_when_has_one_canonical_text_however_it_is_written() -> None:
    written = ["output_tokens<300 and input_tokens >= 100", "input_tokens>=100   and  output_tokens < 300"]
    for text in written:
        (objective,) = parse(slo(f'{{e2e: {{p99: {{max: 3s, when: "{text}"}}}}}}')).objectives
        assert objective.id == "e2e.p99[input_tokens>=100&output_tokens<300]"
        assert objective.when is not None
        assert objective.when.conditions == (
            Condition("input_tokens", ">=", 100),
            Condition("output_tokens", "<", 300),
        )


def test_a_statistic_takes_a_list_of_bounds_with_different_when() -> None:
    text = """\
version: 1
slo:
  e2e:
    p99:
      - {max: 3s, when: output_tokens < 300}
      - {max: 9s, when: output_tokens >= 300, level: warn}
      - 20s
"""
    found = parse(text).objectives
    assert [(o.id, o.bound, o.level, o.line) for o in found] == [
        ("e2e.p99[output_tokens<300]", 3.0, Level.BLOCK, 5),
        ("e2e.p99[output_tokens>=300]", 9.0, Level.WARN, 6),
        ("e2e.p99", 20.0, Level.BLOCK, 7),
    ]


def test_a_mean_beside_its_p99_is_information() -> None:
    found = parse(slo("{ttft: {p99: 1s, mean: 300ms}}")).objectives
    assert [(o.id, o.kind, o.level, o.share) for o in found] == [
        ("ttft.p99", Kind.LATENCY, Level.BLOCK, 0.99),
        ("ttft.mean", Kind.MEAN, Level.INFO, None),
    ]


# ---- goodput's bounds ---------------------------------------------------------------------


def bounds(text: str) -> list[tuple[str, float, str]]:
    return [(b.metric, b.max_s, b.when.text if b.when else "") for b in parse(text).goodput_bounds]


def test_without_a_goodput_section_there_is_no_goodput() -> None:
    loaded = parse(slo("{ttft: {p99: 1s}}"))
    assert loaded.goodput_bounds == ()
    assert ids(loaded) == ["ttft.p99"]


def test_default_bounds_are_those_of_the_highest_blocking_percentile() -> None:
    text = slo("{ttft: {p50: 200ms, p90: 500ms, p99: {max: 1s, level: warn}}, itl: {p99: 50ms}}")
    assert bounds(text + "goodput: {min: 99%}\n") == [("ttft", 0.5, "")]


def test_default_bounds_keep_every_when_of_that_percentile() -> None:
    two = "[{max: 3s, when: output_tokens < 300}, {max: 9s, when: output_tokens >= 300}]"
    text = slo(f"{{e2e: {{p99: {two}, p90: 2s}}}}")
    assert bounds(text + "goodput: {min: 99%}\n") == [
        ("e2e", 3.0, "output_tokens<300"),
        ("e2e", 9.0, "output_tokens>=300"),
    ]


def test_request_replaces_every_default() -> None:
    text = slo("{ttft: {p99: 1s}, tpot: {p99: 25ms}}")
    assert bounds(text + "goodput: {min: 99%, request: {e2e: 5s}}\n") == [("e2e", 5.0, "")]


def test_the_order_of_the_sections_does_not_matter_to_the_bounds() -> None:
    text = "version: 1\ngoodput: {min: 99%}\nslo: {ttft: {p99: 1s}}\n"
    assert bounds(text) == [("ttft", 1.0, "")]
    assert ids(parse(text)) == ["goodput", "ttft.p99"]


# ---- workload -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("{concurrency: 64}", Load(concurrency=64)),
        ("{request_rate: 20/s}", Load(request_rate=20.0)),
        ("{request_rate: 2.5 req/s}", Load(request_rate=2.5)),
        ("{peak: 32}", Load(concurrency=64)),
    ],
)
def test_the_target_is_the_load_or_twice_the_peak(text: str, load: Load) -> None:
    loaded = parse(slo("{ttft: {p99: 1s}}") + f"workload: {{load: {text}}}\n")
    assert loaded.workload.target == load


def test_an_endpoint_without_tokens_is_asked_for_e2e_and_failures() -> None:
    text = (
        "version: 1\n"
        "workload: {output_tokens: none, input_tokens: {mean: 400}}\n"
        "slo: {e2e: {p90: 50ms, p99: {max: 200ms, when: input_tokens < 512}}}\n"
        "goodput: {min: 99%}\n"
        "limits: {error_rate: {max: 1%}}\n"
        "regression: {e2e: {p99: {max: 10%}}}\n"
    )
    loaded = parse(text)
    assert loaded.tokenless
    assert loaded.workload.output_tokens is None
    assert "workload.output_tokens" not in ids(loaded)
    assert bounds(text) == [("e2e", 0.2, "input_tokens<512")]
    assert not parse(DESIGN).tokenless


def test_every_rule_takes_a_level() -> None:
    text = slo("{ttft: {p99: 1s}}") + (
        "workload:\n"
        "  model: {is: llama*, level: warn}\n"
        "  hardware: {is: 8xH100, level: info}\n"
        "  interaction: {is: voice, level: warn}\n"
        "  load: {peak: 4, sweep: [50%, 100%], level: warn}\n"
        "  input_tokens: {mean: 10, level: info}\n"
        "evidence:\n"
        "  runs: {min: 5, level: warn}\n"
        "  requests_per_run: {min: 5, level: info}\n"
        "  tool: {name: vllm, level: warn}\n"
        "  prompts: {is: varied, level: warn}\n"
    )
    levels = {o.id: o.level.value for o in parse(text).objectives}
    assert levels == {
        "ttft.p99": "block",
        "workload.model": "warn",
        "workload.hardware": "info",
        "workload.interaction": "warn",
        "workload.load": "warn",
        "workload.sweep": "warn",
        "workload.input_tokens": "info",
        "evidence.runs": "warn",
        "evidence.requests_per_run": "info",
        "evidence.tool": "warn",
        "evidence.prompts": "warn",
    }


def test_the_defaults_are_the_documented_ones() -> None:
    loaded = parse(slo("{ttft: {p99: 1s}}"))
    assert (loaded.undecided, loaded.cancelled, loaded.single_token_tpot) == ("block", "exclude", "ignore")
    assert (loaded.evidence.confidence, loaded.evidence.decide, loaded.evidence.warmup) == (
        0.95,
        "confident",
        0,
    )


# ---- profiles -----------------------------------------------------------------------------


def test_a_profile_is_laid_on_the_policy_with_the_lines_of_what_it_sets() -> None:
    loaded = parse(DESIGN, "pr")
    lines = {o.id: (o.bound, o.line) for o in loaded.objectives}
    assert loaded.profile == "pr"
    assert loaded.undecided == "lean"
    assert lines["goodput"] == (0.95, 39)
    assert lines["evidence.runs"] == (5.0, 40)
    assert lines["ttft.p99"] == (0.8, 13)
    assert loaded.workload.sweep == ()
    assert "workload.sweep" not in lines
    assert loaded.goodput_bounds == parse(DESIGN).goodput_bounds
    assert loaded.evidence.tool_version_required


def test_one_profile_need_not_be_named() -> None:
    loaded = parse(DESIGN)
    assert loaded.profile is None
    assert next(o.bound for o in loaded.objectives if o.id == "goodput") == 0.99


TWO = (
    slo("{ttft: {p99: 1s, p90: 500ms}}") + "profiles:\n  pr: {undecided: lean}\n  night: {undecided: allow}\n"
)


def test_of_several_profiles_one_must_be_named() -> None:
    with pytest.raises(PolicyError, match="2 profiles and none is named: pr, night") as error:
        parse(TWO)
    assert "--profile pr" in error.value.hint
    assert parse(TWO, "night").undecided == "allow"


def test_the_default_profile_judges_where_none_is_named_and_none_is_the_policy_alone() -> None:
    text = TWO + "default_profile: night\n"
    assert (parse(text).profile, parse(text).undecided) == ("night", "allow")
    assert parse(text, "pr").undecided == "lean"
    assert (parse(text, "none").profile, parse(text, "none").undecided) == (None, "block")
    assert parse(TWO, "none") == policy.parse(TWO.encode(), "slo.yaml", profile="none")
    assert parse(TWO + "default_profile: none\n").profile is None


def test_regressions_that_are_the_only_gate_require_their_baseline() -> None:
    alone = parse("version: 1\nregression: {ttft: {p99: {max: 10%}}}\n")
    assert [one.required for one in alone.objectives] == [True]
    assert alone.requires_baseline
    beside = parse("version: 1\nregression: {ttft: {p99: {max: 10%}}}\nlimits: {error_rate: {max: 1%}}\n")
    assert not beside.requires_baseline
    text = "regression: {ttft: {p99: {max: 10%}}}\nprofiles: {pr: {slo: {ttft: {p99: {level: info}}}}}\n"
    assert not parse(slo("{ttft: {p99: 1s}}") + text).requires_baseline
    assert parse(slo("{ttft: {p99: 1s}}") + text, "pr").requires_baseline


def test_an_unknown_profile_is_refused_with_the_near_one() -> None:
    with pytest.raises(PolicyError, match='no profile "nihgt": pr, night') as error:
        parse(TWO, "nihgt")
    assert error.value.hint == 'did you mean "night"?'
    with pytest.raises(PolicyError, match="has no profiles"):
        parse(slo("{ttft: {p99: 1s}}"), "pr")


def test_a_profile_sets_levels_in_every_spelling_of_a_rule() -> None:
    text = (
        "version: 1\n"
        "workload: {model: llama*, load: {concurrency: 8}}\n"
        "slo:\n"
        "  ttft: {p99: 1s, p99.9: [2s, {max: 9s, when: input_tokens > 9000}], p90: {max: 1s, level: info}}\n"
        "limits: {error_rate: {max: 1%}}\n"
        "regression: {ttft: {p99: {max: 10%}}}\n"
        "evidence: {prompts: varied}\n"
        "profiles:\n"
        "  pr:\n"
        "    workload: {model: {level: warn}, load: {level: info}}\n"
        "    slo: {ttft: {p99: {level: info}, p99.9: {level: info}, p90: {level: block}}}\n"
        "    limits: {error_rate: {level: warn}}\n"
        "    regression: {ttft: {p99: {level: warn}}}\n"
        "    evidence: {prompts: {level: warn}}\n"
    )
    levels = {o.id: (o.level.value, o.line) for o in parse(text, "pr").objectives}
    assert levels == {
        "workload.model": ("warn", 2),
        "workload.load": ("info", 2),
        "ttft.p99": ("info", 4),
        "ttft.p99.9": ("info", 4),
        "ttft.p99.9[input_tokens>9000]": ("info", 4),
        "ttft.p90": ("block", 4),
        "error_rate": ("warn", 5),
        "regression.ttft.p99": ("warn", 6),
        "evidence.prompts": ("warn", 7),
    }


def test_a_profile_that_makes_a_p99_information_does_not_change_what_a_good_request_is() -> None:
    text = slo("{ttft: {p99: 1s}}") + (
        "goodput: {min: 99%}\nprofiles: {pr: {goodput: {min: 95%}, slo: {ttft: {p99: {level: info}}}}}\n"
    )
    loaded = parse(text, "pr")
    assert [(b.metric, b.max_s) for b in loaded.goodput_bounds] == [("ttft", 1.0)]


def test_a_profile_with_another_kind_of_load_replaces_it_and_keeps_the_sweep() -> None:
    text = slo("{ttft: {p99: 1s}}") + (
        "workload: {load: {concurrency: 64, sweep: [50%, 100%]}}\n"
        "profiles: {open: {workload: {load: {request_rate: 20/s}}}}\n"
    )
    loaded = parse(text, "open")
    assert loaded.workload.target == Load(request_rate=20.0)
    assert loaded.workload.sweep == (0.5, 1.0)


def test_null_removes_an_evidence_rule_in_a_profile() -> None:
    text = slo("{ttft: {p99: 1s}}") + (
        "evidence: {runs: {min: 30}}\nprofiles: {pr: {evidence: {runs: null}}}\n"
    )
    assert ids(parse(text)) == ["ttft.p99", "evidence.runs"]
    assert ids(parse(text, "pr")) == ["ttft.p99"]


def test_an_alias_stands_where_its_key_stands() -> None:
    text = "version: 1\nslo:\n  ttft: {p99: &limit 1s}\n  e2e:\n    p99: *limit\n"
    assert [(o.id, o.bound, o.line) for o in parse(text).objectives] == [
        ("ttft.p99", 1.0, 3),
        ("e2e.p99", 1.0, 5),
    ]


# ---- files --------------------------------------------------------------------------------


def test_load_reads_a_file_and_keeps_its_path(tmp_path: Path) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text(DESIGN, encoding="utf-8-sig")  # an editor's byte order mark is harmless
    loaded = policy.load(str(file), profile="pr")
    assert loaded.path == str(file)
    assert loaded.profile == "pr"


def test_a_missing_policy_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for attempt in (lambda: policy.load(str(tmp_path / "slo.yaml")), lambda: policy.find(str(tmp_path))):
        with pytest.raises(PolicyError) as error:
            attempt()
        assert "`slo-gate init --for chat`" in error.value.hint
        assert "`slo-gate check RESULTS --preset chat`" in error.value.hint
        assert error.value.exit is Exit.USAGE


def test_find_takes_the_first_of_the_documented_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".github").mkdir()
    for name in (".github/slo.yaml", ".slo-gate.yaml", "slo.yaml"):
        (tmp_path / name).write_text(DESIGN)
        assert policy.find(str(tmp_path)) == str(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert policy.find() == "slo.yaml"


def test_loading_never_imports_jsonschema_or_what_writes_the_schema() -> None:
    code = (
        "import sys; from gate import policy; policy.preset('chat');"
        "bad = [m for m in sys.modules if m.startswith(('jsonschema', 'gate.policy.schema'))];"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
