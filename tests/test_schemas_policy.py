"""The published policy schema is the one of the grammar's tables, and gives the loader's answers.

What spans several keys is the loader's alone; those rules are listed here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft7Validator

from gate import _schemas, policy
from gate.errors import PolicyError
from gate.policy.schema import schema

SCHEMA = _schemas.load("policy")
VALIDATOR = Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)
DOCS = (Path(__file__).resolve().parents[1] / "docs" / "policy.md").read_text(encoding="utf-8")

# What a JSON Schema cannot say, because it spans keys: the loader's words, and a policy that the schema
# accepts and the loader refuses for that reason alone.
P99 = "slo: {ttft: {p99: 1s}}"
WAIVER = "{objective: ttft.p99, until: 2027-01-31, owner: me, reason: because}"
SEMANTIC = {
    "the policy has no objective": "",
    "nothing in the policy can block or warn": "slo: {ttft: {p99: {max: 1s, level: info}}}",
    "throughput cannot be the only gate": "limits: {throughput: {min: 1 tok/s}}",
    "cannot be the only gate: it compares": "limits: {headroom: {max_drop: 5pt, to: 150%}}",
    "which is no profile of this policy": f"{P99}\ndefault_profile: pr",
    "stands for the policy without a profile": f"{P99}\nprofiles: {{none: {{undecided: lean}}}}",
    "stands without the P99 of": "slo: {ttft: {p90: 1s, mean: 1s}}",
    "has two bounds for the same requests": "slo: {ttft: {p99: [1s, {max: 2s}]}}",
    "holds for no request": "slo: {ttft: {p99: {max: 1s, when: input_tokens < 0}}}",
    "goodput has no bound": "slo: {itl: {p99: 1s}}\ngoodput: {min: 99%}",
    "must lie above `from`": f"{P99}\nlimits: {{headroom: {{max_drop: 5pt, from: 150%, to: 100%}}}}",
    "names a load twice": f"{P99}\nworkload: {{load: {{peak: 4, sweep: [50%, 50 %]}}}}",
    "asks for a sweep of real traffic": f"{P99}\n"
    "workload: {load: {production: {min: 1/s}, sweep: [50%]}}",
    "cannot be judged: `output_tokens: none`": f"{P99}\nworkload: {{output_tokens: none}}",
    "which is no objective of this policy": f"{P99}\nwaivers: [{WAIVER.replace('ttft.p99', 'goodput')}]",
    "is waived twice": f"{P99}\nwaivers: [{WAIVER}, {WAIVER}]",
    "profiles and none is named": f"{P99}\nprofiles: {{a: {{undecided: lean}}, b: {{undecided: lean}}}}",
    "that a profile could change": f"{P99}\nprofiles: {{a: {{slo: {{tpot: {{p99: {{level: warn}}}}}}}}}}",
    "a profile may not add goodput": f"{P99}\nprofiles: {{a: {{goodput: {{min: 95%}}}}}}",
    "which has no level to change": "slo: {e2e: {p99: 1s}}\nworkload: {output_tokens: none}\n"
    "profiles: {a: {workload: {output_tokens: {level: warn}}}}",
    "with profile [^:]+: .*(lacks the key|names no load|asks for nothing)": f"{P99}\n"
    "profiles: {a: {evidence: {runs: {level: warn}}}}",
}

# Every key in a spelling that the examples of the docs do not have.
SPELLINGS = """\
version: 1
name: a b
workload:
  model: {is: llama*, level: warn}
  hardware: {is: 8xH100, level: info}
  interaction: {is: voice, level: warn}
  load: {request_rate: 2.5 req/s, sweep: [50%, 150 %], level: warn}
  input_tokens: {mean: 10.5, stddev: 0, level: info}
  output_tokens: {mean: 150, stddev: 50, tolerance: 100%}
slo:
  ttft: {p99: [1s, {max: 2 s, when: output_tokens<300}], p99.9: 3min, mean: {max: 300ms, level: info}}
  tpot: {p99: {max: 250us, level: warn}, mean: 20ms}
  itl: {p0.5: {max: 5ms, level: info}}
goodput: {min: 99.9 %, level: warn, request: {tpot: [25ms], e2e: {max: 3s, when: input_tokens > 5}}}
limits:
  error_rate: {max: 0%, level: warn}
  headroom: {max_drop: 0pt, to: 150%}
  throughput: {min: 1 tok/s, level: info}
regression: {tpot: {p50: {max: 5%, and_at_least: 1ms, level: warn}}, required: true}
evidence:
  confidence: 99.99%
  decide: point
  runs: {min: 5, level: warn}
  requests_per_run: {min: 100, level: warn}
  tool: {name: vllm, version: required}
  prompts: {is: varied, level: info}
  warmup: 50
  attempted: gateway_requests_total
semantics: {cancelled: miss}
default_profile: night
profiles:
  night:
    undecided: allow
    workload: {load: {peak: 4}, model: {level: block}, input_tokens: {level: warn}}
    slo: {ttft: {p99: {level: info}, mean: {level: info}}}
    goodput: {min: 95%, level: block}
    limits: {error_rate: {level: info}}
    regression: {tpot: {p50: {level: info}}}
    evidence: {confidence: null, runs: null, tool: {level: warn}, prompts: {level: warn}, warmup: auto}
"""
TOKENLESS = (
    "version: 1\nworkload: {output_tokens: none, load: {production: {min: 5/s}}}\nslo: {e2e: {p99: 1s}}\n"
)
EXAMPLES = re.findall(r"^```yaml\n(version.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
RICH = [policy.document(text.encode(), "slo.yaml") for text in (max(EXAMPLES, key=len), SPELLINGS, TOKENLESS)]
# Values and keys that are right nowhere, or only just.
ODD: list[Any] = [
    *(None, True, False, 0, 1, 1.0, -1, 2.5, 10**9, 10**9 + 1, {}, [], [None], ["1s"], {"is": "varied"}),
    *("", " ", "\t", "a\x7f", "x" * 201, "x" * 501, "9" * 19 + "s", "0ms", "00 ms", "01s", "1.50s", "800"),
    *("800 MS", "-1s", "1e3ms", "1\ts", "0%", "100%", "100.0%", "100.1%", "49.9%", "99.991%", "99.9900 %"),
    *(
        "101pt",
        "0/s",
        "0 tok/s",
        "1 token/s",
        "Block",
        "None",
        "2027-02-30",
        "20270131",
        "output_tokens < 01",
    ),
    *("output_tokens<300and input_tokens<3", "input_tokens >= 5  and  input_tokens < 9"),
    "output_tokens < 1234567890",
]
WORDS = ["p0", "p100", "p99.0", "p99.1234567", "p01", "P99", "zzz", "", "a b", "_", "x" * 51]


def places(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document, the document itself included."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at, *(path for key, child in inside for path in places(child, (*at, key)))]


def value_at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value, or one more, at a place."""
    document = copy.deepcopy(document)
    value_at(document, path[:-1])[path[-1]] = copy.deepcopy(value)
    return document


def take(document: Any, path: tuple[Any, ...]) -> Any:
    """A copy without a place."""
    document = copy.deepcopy(document)
    del value_at(document, path[:-1])[path[-1]]
    return document


PLACES = [(one, path) for one in RICH for path in places(one) if path]
VALUES = [*ODD, *(value_at(one, path) for one, path in PLACES)]
KEYS = sorted({*WORDS, *(path[-1] for _, path in PLACES if isinstance(path[-1], str))})


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A good policy in which one or two values were put or added."""
    document = draw(st.sampled_from(RICH))
    for _ in range(draw(st.integers(1, 2))):
        path, value = draw(st.sampled_from(places(document)[1:])), draw(st.sampled_from(VALUES))
        if draw(st.booleans()):
            document = put(document, path, value)
        elif isinstance(value_at(document, path), dict):
            document = put(document, (*path, draw(st.sampled_from(KEYS))), value)
        elif isinstance(value_at(document, path), list):
            document = put(document, (*path, slice(0, 0)), [value])
    return document


def faults(document: object) -> list[str]:
    """What the schema says against a policy."""
    return [error.message for error in VALIDATOR.iter_errors(document)]


def refusals(document: object) -> list[str]:
    """What the loader says against a policy, a line a problem."""
    try:
        policy.parse(json.dumps(document, ensure_ascii=False, indent=1).encode(), "slo.yaml")
    except PolicyError as error:
        return [line for line in str(error).splitlines() if not re.search(r": and \d+ more$", line)]
    return []


def assert_one_answer(document: Any) -> None:
    said, by_schema = refusals(document), faults(document)
    if by_schema:
        assert said, f"only the schema refuses: {by_schema}"
    else:
        unlisted = [line for line in said if not any(re.search(words, line) for words in SEMANTIC)]
        assert not unlisted, "only the loader refuses, and not for a listed reason"


@settings(max_examples=300, deadline=None)
@given(documents())
def test_the_loader_and_the_schema_give_the_same_answer(document: Any) -> None:
    assert_one_answer(document)


@pytest.mark.parametrize(
    ("document", "path"), PLACES, ids=lambda value: "" if isinstance(value, dict) else str(value)
)
def test_they_give_the_same_answer_at_every_place(document: Any, path: tuple[Any, ...]) -> None:
    for value in ({}, [None], [], -1, 1e10, "zzz"):
        assert_one_answer(put(document, path, value))
    assert_one_answer(take(document, path))
    if isinstance(value_at(document, path), dict):
        assert_one_answer(put(document, (*path, "zzz"), 1))


@pytest.mark.parametrize("words", SEMANTIC)
def test_a_rule_that_spans_keys_is_held_by_the_loader_alone(words: str) -> None:
    document = policy.document(f"version: 1\n{SEMANTIC[words]}\n".encode(), "slo.yaml")
    assert faults(document) == []
    said = refusals(document)
    assert said
    assert all(re.search(words, line) for line in said)


@pytest.mark.parametrize("text", [*EXAMPLES, *map(policy.preset_text, policy.PRESETS), SPELLINGS, TOKENLESS])
def test_every_preset_and_every_policy_of_the_docs_is_good(text: str) -> None:
    document = policy.document(text.encode(), "slo.yaml")
    assert (faults(document), refusals(document)) == ([], [])


def test_the_published_schema_is_the_one_of_the_tables(golden: Callable[[str, str], None]) -> None:
    text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    golden("../../schemas/policy.schema.json", text)
    Draft7Validator.check_schema(json.loads(text))
    assert SCHEMA["$id"] == "https://json.schemastore.org/slo-gate.json"


def test_every_section_and_key_has_a_title_and_a_description() -> None:
    def described(key: dict[str, Any], at: str) -> None:
        while "$ref" in key:
            key = SCHEMA["definitions"][key["$ref"].rpartition("/")[2]]
        assert key.get("title"), at
        assert key.get("description"), at

    for name, section in SCHEMA["properties"].items():
        described(section, name)
        for key, child in section.get("properties", {}).items():
            described(child, f"{name}.{key}")
