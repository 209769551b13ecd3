"""The published policy schema and the loader give the same answer, but for the rules listed here."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from gate import _schemas, policy
from gate.errors import PolicyError
from gate.policy import _grammar as grammar

SCHEMA = _schemas.load("policy")
VALIDATOR = Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)

GOOD: dict[str, Any] = {"version": 1, "slo": {"ttft": {"p99": "1s"}}}
SWEEP = {"load": {"peak": 4, "sweep": ["50%", "50 %"]}}
WAIVER = {"objective": "ttft.p99", "until": "2027-01-31", "owner": "me", "reason": "because"}

# What a JSON Schema cannot say, because it spans keys: the loader's words, and a policy that the
# schema accepts and the loader refuses for that reason alone.
SEMANTIC: dict[str, tuple[str, dict[str, Any]]] = {
    "an objective": ("the policy has no objective", {"version": 1}),
    "something that gates": (
        "nothing in the policy can block or warn",
        {"version": 1, "slo": {"ttft": {"p99": {"max": "1s", "level": "info"}}}},
    ),
    "more than throughput": (
        "throughput alone is no gate",
        {"version": 1, "limits": {"throughput": {"min": "1 tok/s"}}},
    ),
    "more than what is judged later": (
        "alone would be no gate",
        {"version": 1, "regression": {"ttft": {"p99": {"max": "10%"}}}},
    ),
    "a mean beside its P99": (
        "stands without the P99 of",
        {"version": 1, "slo": {"ttft": {"p90": "1s", "mean": "1s"}}},
    ),
    "one bound for the same requests": (
        "has two bounds for the same requests",
        {"version": 1, "slo": {"ttft": {"p99": ["1s", {"max": "2s"}]}}},
    ),
    "a when that some request meets": (
        "holds for no request",
        {"version": 1, "slo": {"ttft": {"p99": {"max": "1s", "when": "input_tokens < 0"}}}},
    ),
    "a goodput with a bound": (
        "goodput has no bound",
        {"version": 1, "slo": {"itl": {"p99": "1s"}}, "goodput": {"min": "99%"}},
    ),
    "headroom from a lower load": (
        "must lie above `from`",
        GOOD | {"limits": {"headroom": {"max_drop": "5pt", "from": "150%", "to": "100%"}}},
    ),
    "every load of a sweep once": ("names a load twice", GOOD | {"workload": SWEEP}),
    "a waiver of an objective": (
        "which is no objective of this policy",
        GOOD | {"waivers": [WAIVER | {"objective": "goodput"}]},
    ),
    "one waiver an objective": ("is waived twice", GOOD | {"waivers": [WAIVER, WAIVER]}),
    "a profile named when there are several": (
        "profiles and none is named",
        GOOD | {"profiles": {"a": {"undecided": "lean"}, "b": {"undecided": "lean"}}},
    ),
    "a profile that changes what is there": (
        "that a profile could change",
        GOOD | {"profiles": {"a": {"slo": {"tpot": {"p99": {"level": "warn"}}}}}},
    ),
    "a profile that adds no goodput": (
        "a profile may not add goodput",
        GOOD | {"profiles": {"a": {"goodput": {"min": "95%"}}}},
    ),
    "no bound on tokens where there are none": (
        "cannot be judged: `output_tokens: none`",
        GOOD | {"workload": {"output_tokens": "none"}},
    ),
    "a profile that gives a level to a rule": (
        "which has no level to change",
        {
            "version": 1,
            "slo": {"e2e": {"p99": "1s"}},
            "workload": {"output_tokens": "none"},
            "profiles": {"a": {"workload": {"output_tokens": {"level": "warn"}}}},
        },
    ),
    "a profile that completes what it lays on": (
        "with profile [^:]+: .*(lacks the key|names no load|asks for nothing)",
        GOOD | {"profiles": {"a": {"evidence": {"runs": {"level": "warn"}}}}},
    ),
}


def refusals(data: object) -> list[str]:
    """What the loader says against a policy, a line a problem."""
    try:
        policy.parse(json.dumps(data, ensure_ascii=False, indent=1).encode(), "slo.yaml")
    except PolicyError as error:
        return [line for line in str(error).splitlines() if not re.search(r": and \d+ more$", line)]
    return []


# ---- policies to try ----------------------------------------------------------------------

TIME = st.sampled_from(["800ms", "25 ms", "3s", "2min", "250us", "1.5 s"])
SHARE = st.sampled_from(["99%", "95 %", "99.9%", "50%", "100%"])
LEVEL = st.sampled_from(["block", "warn", "info"])
COUNT = st.sampled_from([1, 5, 30, 100])
TEXT = st.sampled_from(["llama*", "8xH100", "a b", "µ"])
WHEN = st.sampled_from(
    ["output_tokens < 300", "output_tokens>=300", "input_tokens > 5 and output_tokens <= 9"]
)
PERCENTILE = st.sampled_from(["p50", "p90", "p99", "p99.9"])


def keys(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def some(strategy: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return strategy.filter(bool)


BOUND = TIME | keys({"max": TIME}, {"when": WHEN, "level": LEVEL})
BOUNDS = BOUND | st.lists(BOUND, min_size=1, max_size=2)
STATISTICS = st.dictionaries(PERCENTILE, BOUNDS, min_size=1, max_size=2)
REQUEST_BOUND = TIME | keys({"max": TIME}, {"when": WHEN})
RULE = keys({"min": COUNT}, {"level": LEVEL})
TOKENS = keys({"mean": COUNT}, {"stddev": COUNT, "tolerance": SHARE, "level": LEVEL})
SWEEPS = st.lists(st.sampled_from(["50%", "100%", "150%"]), min_size=1, max_size=3, unique=True)
LOAD = st.one_of(
    *(
        keys({kind: value}, {"sweep": SWEEPS, "level": LEVEL})
        for kind, value in (
            ("concurrency", COUNT),
            ("peak", COUNT),
            ("request_rate", st.sampled_from(["20/s", "1.5 req/s"])),
        )
    )
)


def stated(value: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return value | keys({"is": value}, {"level": LEVEL})


EVIDENCE = {
    "confidence": st.sampled_from(["95%", "99.99%", "50%"]),
    "decide": st.sampled_from(["confident", "point"]),
    "runs": RULE,
    "requests_per_run": RULE,
    "tool": keys({"version": st.just("required")}, {"name": TEXT, "level": LEVEL}),
    "prompts": stated(st.just("varied")),
    "warmup": st.sampled_from(["auto", 0, 50]),
}
ONLY_LEVEL = st.fixed_dictionaries({"level": LEVEL})
LEVELS = some(
    keys({}, {m: st.dictionaries(PERCENTILE, ONLY_LEVEL, min_size=1) for m in ("ttft", "tpot", "e2e")})
)
PROFILE = some(
    keys(
        {},
        {
            "undecided": st.sampled_from(["block", "lean", "allow"]),
            "goodput": keys({"min": SHARE}, {"level": LEVEL}),
            "evidence": some(keys({}, {k: v | st.none() for k, v in EVIDENCE.items()})),
            "workload": st.fixed_dictionaries({"load": LOAD}) | some(keys({}, {"model": ONLY_LEVEL})),
            "slo": LEVELS,
            "limits": st.fixed_dictionaries({"error_rate": ONLY_LEVEL}),
            "regression": LEVELS,
        },
    )
)
POLICY = keys(
    {"version": st.just(1)},
    {
        "name": TEXT,
        "undecided": st.sampled_from(["block", "lean", "allow"]),
        "workload": some(
            keys(
                {},
                {
                    "model": stated(TEXT),
                    "hardware": stated(TEXT),
                    "interaction": stated(st.sampled_from(["voice", "batch", "streaming-chat"])),
                    "load": LOAD,
                    "input_tokens": TOKENS,
                    "output_tokens": TOKENS | st.just("none"),
                },
            )
        ),
        "slo": some(keys({}, dict.fromkeys(("ttft", "tpot", "itl", "e2e"), STATISTICS))),
        "goodput": keys(
            {"min": SHARE},
            {
                "level": LEVEL,
                "request": some(keys({}, dict.fromkeys(("ttft", "tpot", "e2e"), REQUEST_BOUND))),
            },
        ),
        "limits": some(
            keys(
                {},
                {
                    "error_rate": keys({"max": st.sampled_from(["1%", "0%"])}, {"level": LEVEL}),
                    "headroom": keys(
                        {"max_drop": st.sampled_from(["5pt", "0.5 pt"]), "to": st.just("150%")},
                        {"from": st.just("100%"), "level": LEVEL},
                    ),
                    "throughput": keys({"min": st.just("2000 tok/s")}, {"level": LEVEL}),
                },
            )
        ),
        "regression": keys(
            {"ttft": st.dictionaries(PERCENTILE, keys({"max": SHARE}, {"and_at_least": TIME}), min_size=1)},
            {"required": st.booleans()},
        ),
        "evidence": some(keys({}, EVIDENCE)),
        "semantics": some(
            keys({}, {"cancelled": st.just("miss"), "single_token_tpot": st.sampled_from(["ignore", "miss"])})
        ),
        "waivers": st.lists(st.just(WAIVER), max_size=1),
        "profiles": st.dictionaries(st.sampled_from(["pr", "night"]), PROFILE, min_size=1, max_size=2),
    },
)

# Values and keys that are right in one place and wrong in another.
ATOMS: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        1.0,
        -1,
        2.5,
        30.0,
        10**9,
        10**9 + 1,
        "",
        " ",
        "\t",
        "a\x7f",
        "x" * 501,
        "x" * 201,
    ),
    *(
        "800ms",
        "0ms",
        "0.0 s",
        "00 ms",
        "01s",
        "1.50s",
        "800",
        "800 MS",
        "-1s",
        "1e3ms",
        " 1s",
        "1\ts",
        "9" * 19 + "s",
    ),
    *(
        "99%",
        "0%",
        "100%",
        "100.0%",
        "100.1%",
        "101%",
        "49.9%",
        "99.99%",
        "99.991%",
        "99.9900 %",
        "5pt",
        "101pt",
    ),
    *(
        "0pt",
        "20/s",
        "0/s",
        "2 req/s",
        "2000 tok/s",
        "0 tok/s",
        "1 token/s",
        "auto",
        "varied",
        "required",
        "none",
        "block",
    ),
    *(
        "info",
        "Block",
        "miss",
        "lean",
        "voice",
        "2027-01-31",
        "2027-02-30",
        "20270131",
        "output_tokens < 300",
    ),
    *(
        "output_tokens<300and input_tokens<3",
        "output_tokens < 01",
        "input_tokens >= 5  and  input_tokens < 9",
    ),
    *("output_tokens < 1234567890", "ttft.p99", {}, [], [None], ["1s"], ["50%"], {"max": "1s"}, {"min": 5}),
    *(
        {"is": "varied"},
        {"level": "info"},
        {"level": None},
        {"p99": "1s"},
        {"ttft": {"p99": "1s"}},
        WAIVER,
        [WAIVER],
    ),
]
WORDS = [
    *(
        "version",
        "name",
        "undecided",
        "workload",
        "slo",
        "goodput",
        "limits",
        "regression",
        "evidence",
        "semantics",
    ),
    *(
        "waivers",
        "profiles",
        "max",
        "min",
        "when",
        "level",
        "is",
        "ttft",
        "itl",
        "e2e",
        "p99",
        "p0",
        "p100",
        "p99.0",
    ),
    *(
        "p99.99",
        "p99.1234567",
        "p01",
        "p0.5",
        "P99",
        "mean",
        "request",
        "required",
        "load",
        "peak",
        "concurrency",
    ),
    *(
        "request_rate",
        "sweep",
        "model",
        "tolerance",
        "stddev",
        "runs",
        "tool",
        "prompts",
        "warmup",
        "zzz",
        "",
        "a b",
    ),
]


def places(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document, the document itself included."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at, *(path for key, child in inside for path in places(child, (*at, key)))]


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A policy, mostly good, with up to two things put, taken or added at random."""
    document = copy.deepcopy(draw(POLICY))
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(places(document)))
        node = document
        for key in path:
            node = node[key]
        atom = copy.deepcopy(draw(st.sampled_from(ATOMS)))
        change = draw(st.sampled_from(["put", "add", "take"]))
        if change == "add" and isinstance(node, dict):
            node[draw(st.sampled_from(WORDS))] = atom
        elif change == "add" and isinstance(node, list):
            node.append(atom)
        elif path:
            parent = document
            for key in path[:-1]:
                parent = parent[key]
            if change == "take":
                del parent[path[-1]]
            else:
                parent[path[-1]] = atom
    return document


# ---- the tests ----------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(documents())
def test_the_loader_and_the_schema_give_the_same_answer(document: Any) -> None:
    said = refusals(document)
    by_schema = [error.message for error in VALIDATOR.iter_errors(document)]
    if by_schema:
        assert said, f"only the schema refuses: {by_schema}"
    else:
        unlisted = [
            line for line in said if not any(re.search(words, line) for words, _ in SEMANTIC.values())
        ]
        assert not unlisted, "only the loader refuses, and not for a listed reason"


@settings(max_examples=100, deadline=None)
@given(POLICY)
def test_the_schema_accepts_what_the_grammar_of_the_docs_allows(document: Any) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize("rule", SEMANTIC)
def test_a_rule_that_spans_keys_is_held_by_the_loader_alone(rule: str) -> None:
    words, document = SEMANTIC[rule]
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    said = refusals(document)
    assert said
    assert all(re.search(words, line) for line in said)


def test_the_schema_is_a_valid_draft_7_schema_with_an_id() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "https://json.schemastore.org/slo-gate.json"


def subschemas(node: Any) -> list[dict[str, Any]]:
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return ([node] if isinstance(node, dict) else []) + [s for child in inside for s in subschemas(child)]


def test_every_section_and_key_has_a_title_and_a_description() -> None:
    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        return SCHEMA["definitions"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema

    for name, section in SCHEMA["properties"].items():
        assert section["title"], name
        assert section["description"], name
        for key, child in section.get("properties", {}).items():
            described = resolved(child)
            assert described.get("title"), f"{name}.{key}"
            assert described.get("description"), f"{name}.{key}"


def test_every_pattern_of_the_schema_is_one_of_the_loader() -> None:
    mine = {q.pattern for q in grammar.QUANTITIES}
    mine |= {grammar.PERCENTILE, grammar.WHEN, grammar.DAY, grammar.TEXT, grammar.PROFILE}
    schemas = subschemas(SCHEMA)
    theirs = {s["pattern"] for s in schemas if isinstance(s.get("pattern"), str)}
    theirs |= {pattern for s in schemas for pattern in s.get("patternProperties", {})}
    assert theirs == mine


@pytest.mark.parametrize("name", policy.PRESETS)
def test_every_preset_validates(name: str) -> None:
    document = policy.document(policy.preset_text(name).encode(), name)
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
