"""What is refused: one sentence, its line, and what to write instead."""

from __future__ import annotations

import re
import time

import pytest

from gate import policy
from gate.errors import Exit, PolicyError
from gate.policy._tables import TOP
from gate.policy._types import Many, Shape

P99 = "version: 1\nslo: {ttft: {p99: 1s}}\n"  # a good policy of two lines to add to


def refusal(data: str | bytes, profile: str | None = None) -> PolicyError:
    data = data if isinstance(data, bytes) else data.encode()
    with pytest.raises(PolicyError) as error:
        policy.parse(data, "slo.yaml", profile=profile)
    assert error.value.exit is Exit.USAGE
    return error.value


def assert_refused(data: str | bytes, line: int, message: str, hint: str = "") -> None:
    """Exactly one problem, in that line, saying so."""
    error = refusal(data)
    assert error.where == (f"slo.yaml:{line}" if line else "slo.yaml")
    assert "\n" not in error.message
    assert message in error.message
    assert hint in error.hint


# ---- the file itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "message", "hint"),
    [
        (b"", 0, "the policy is empty", "slo-gate init --for chat"),
        (b"# only a comment\n", 0, "the policy is empty", ""),
        (b"---\n", 0, "the policy is empty", ""),
        (b"- version: 1\n", 1, "a policy is a mapping of keys, and this is a list", "version: 1"),
        (b"hello\n", 1, 'a policy is a mapping of keys, and this is "hello"', ""),
        (b"version: 1\nname: caf\xe9\n", 2, "is not UTF-8 text", "UTF-8"),
        (P99.encode("utf-16"), 1, "is not UTF-8 text", "UTF-8"),
        (b"version: 1\n\nname: a\0b\n", 3, "holds a NUL character", ""),
        (P99.encode() + b"---\nversion: 1\n", 3, "holds several documents", "---"),
        (P99.encode() + b"#" * (1 << 20), 0, "is larger than 1 MB", ""),
        (b"version: 1\nslo:\n\tttft: {}\n", 3, "is not YAML", "indent with spaces"),
        (b"version: 1\nslo: {ttft: {p99: 1s}\n", 3, "is not YAML", ""),
        (b'version: 1\nname: "a\x07"\n', 0, "is not YAML: unacceptable character", "take the character out"),
        (b"version: !!int 1\n", 1, 'the tag "tag:yaml.org,2002:int" is not allowed', "remove it"),
        (b"version: 1\nslo: !!python/object/apply:os.system [ls]\n", 2, "is not allowed", "remove it"),
        (b"version: 1\nslo: !mine {}\n", 2, 'the tag "!mine" is not allowed', ""),
        (b"version: 1\n<<: {name: a}\n", 2, "YAML merge keys are not supported", "profiles"),
        (b"version: 1\n? [a, b]\n: 1\n", 2, "a key must be plain text", ""),
        (b"version: 1\nname: *x\n", 2, 'the alias "*x" has no anchor', ""),
        (b"version: 1\nslo: &s {ttft: *s}\n", 2, 'the alias "*s" stands inside itself', ""),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_one_sentence(
    data: bytes, line: int, message: str, hint: str
) -> None:
    assert_refused(data, line, message, hint)


def test_an_alias_bomb_is_refused_at_once() -> None:
    levels = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for old, new in zip("abcdefgh", "bcdefghi", strict=True):
        levels.append(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]")
    start = time.perf_counter()
    error = refusal("\n".join(levels))  # 9 ** 9 values if anyone expanded them
    assert time.perf_counter() - start < 1
    assert "holds more than 10,000 values once its aliases are expanded" in error.message
    assert error.where == "slo.yaml:5"  # 9 ** 4 = 6561 values fit, 9 ** 5 do not


def test_a_document_nested_to_the_bottom_of_the_stack_is_refused_at_once() -> None:
    start = time.perf_counter()
    for text in ("a: " + "[" * 60 + "]" * 60, "[" * 200_000, "- " * 200_000, "{a: " * 200_000):
        refusal(text)
    assert time.perf_counter() - start < 2


def test_a_key_that_stands_twice_is_refused_with_both_lines() -> None:
    assert_refused(
        "version: 1\nslo:\n  ttft: {p99: 1s}\n  tpot: {p99: 25ms}\n  ttft: {p99: 9s}\n",
        5,
        'duplicate key "ttft": first in line 3',
        "keep one",
    )


# ---- YAML traps ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("on", "on is true or false to some YAML readers", 'write true, or "on" in quotes'),
        ("Yes", "Yes is true or false to some YAML readers", 'write true, or "Yes" in quotes'),
        ("no", "no is true or false to some YAML readers", 'write false, or "no" in quotes'),
        ("off", "off is true or false to some YAML readers", "write false"),
        ("12:30", "12:30 is the number 750 to some YAML readers", 'write a quantity such as "750 s"'),
        ("1:30:00", "1:30:00 is the number 5400 to some YAML readers", '"5400 s"'),
        ("1e3", "1e3 is a number to some YAML readers and text to others", "write 1000, or quote it"),
        ("2.5e-2", "2.5e-2 is a number to some YAML readers", "write 0.025"),
        ("1_000", "1_000 is 1000 to some YAML readers", "write 1000"),
        ("010", "010 starts with a 0 and is 8 to some YAML readers", "write 10"),
        ("0o10", "0o10 is a number in another base", "write 8"),
        ("0x1F", "0x1F is a number in another base", "write 31"),
        (".5", ".5 lacks a digit beside its point", "write 0.5"),
        (".inf", ".inf is not a finite number", ""),
        ("-.INF", "-.INF is not a finite number", ""),
        (".nan", ".nan is not a finite number", ""),
        ("NaN", "NaN is not a finite number", ""),
        ("1234567890123456", "has more digits than a number holds", ""),
    ],
)
def test_a_scalar_that_yaml_readers_disagree_on_is_refused_with_what_was_meant(
    text: str, message: str, hint: str
) -> None:
    assert_refused(f"version: 1\nslo:\n  ttft: {{p99: {text}}}\n", 3, message, hint)


def test_the_same_text_in_quotes_is_text() -> None:
    assert policy.parse(b'name: "on"\n' + P99.encode(), "slo.yaml").name == "on"


# ---- grammar ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("800", 'the bare number 800 has no unit: write "800 ms" or "800 s"'),
        ("0.8", 'the bare number 0.8 has no unit: write "0.8 ms" or "0.8 s"'),
        ("99%", '"%" is not a unit of this value; use one of us, ms, s, min'),
        ("800 msec", '"msec" is not a unit of this value'),
        ("-5ms", '"-5ms" is not a quantity'),
        ("0ms", '"0ms" does not fit here; write a time above 0'),
        ("010ms", '"010ms" does not fit here'),
        ("1e3 ms", '"e3 ms" is not a unit of this value'),
        ("true", "expected a quantity"),
        ("123456789012345678901s", "is too long for a quantity"),
        ("fast", '"fast" is not a quantity'),
    ],
)
def test_a_time_that_is_none_is_refused(text: str, message: str) -> None:
    assert_refused(f"version: 1\nslo:\n  ttft:\n    p99: {text}\n", 4, message)
    assert_refused(f"version: 1\nslo:\n  ttft:\n    p99: {{max: {text}}}\n", 4, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.99", 'the bare number 0.99 has no unit: write "0.99%" or "99%"'),
        ("99", 'the bare number 99 has no unit: write "99%"'),
        ("0%", "a percentage above 0% and up to 100%"),
        ("101%", "a percentage above 0% and up to 100%"),
        ("100.5%", "a percentage above 0% and up to 100%"),
    ],
)
def test_a_goodput_outside_0_to_100_percent_is_refused(text: str, message: str) -> None:
    assert_refused(f"{P99}goodput:\n  min: {text}\n", 4, message)


@pytest.mark.parametrize("text", ["49%", "49.99%", "99.991%", "100%", "5%", "99.9901%"])
def test_a_confidence_outside_50_to_99_99_percent_is_refused(text: str) -> None:
    assert_refused(f"{P99}evidence:\n  confidence: {text}\n", 4, "a confidence from 50% to 99.99%")


@pytest.mark.parametrize(
    ("text", "share"),
    [("50%", 0.5), ("95 %", 0.95), ("99.9%", 0.999), ("99.99%", 0.9999), ("99.990%", 0.9999), ("99%", 0.99)],
)
def test_a_confidence_within_is_taken(text: str, share: float) -> None:
    loaded = policy.parse(f"{P99}evidence: {{confidence: {text}}}\n".encode(), "slo.yaml")
    assert loaded.evidence.confidence == share


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("p0", "between 0 and 100"),
        ("p100", "between 0 and 100"),
        ("p150", "between 0 and 100"),
        ("p99.0", 'write it "p99"'),
        ("P99", 'write it "p99"'),
        ("p09", 'write it "p9"'),
        ("p99.9999999", "at most six decimals"),
        ("median", 'did you mean "p50"?'),
        ("max", "write one of p50, p90, p95, p99, mean"),
        ("99", 'did you mean "p99"?'),
    ],
)
def test_a_statistic_nobody_knows_is_refused(text: str, hint: str) -> None:
    assert_refused(f"version: 1\nslo:\n  ttft:\n    {text}: 1s\n", 4, f'unknown statistic "{text}"', hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output_tokens == 300", '"output_tokens == 300" is not a condition'),
        ("tokens < 300", '"tokens < 300" is not a condition: write input_tokens or output_tokens'),
        ("output_tokens < 300 or input_tokens < 5", "is not a condition"),
        ("output_tokens < 1.5", "is not a condition"),
        ("output_tokens < 300 and", "is not a condition"),
        ("output_tokens < 5 and output_tokens > 10", "holds for no request"),
        ("input_tokens < 0", "holds for no request"),
    ],
)
def test_a_when_that_is_none_is_refused(text: str, message: str) -> None:
    assert_refused(f'version: 1\nslo:\n  e2e:\n    p99: {{max: 1s, when: "{text}"}}\n', 4, message)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("slos: {}", 3, 'unknown key "slos"', 'did you mean "slo"?'),
        ("goodput: {mim: 99%, min: 99%}", 3, 'unknown key "mim" in goodput', 'did you mean "min"?'),
        ("goodput: {min: 99%, level: error}", 3, "must be one of block, warn, info", '"block"?'),
        ("goodput: {min: 99%, level: wran}", 3, 'got "wran"', 'did you mean "warn"?'),
        ("undecided: blok", 3, "must be one of block, lean, allow", 'did you mean "block"?'),
        ("undecided: true", 3, "must be one of block, lean, allow, got true", ""),
        ("undecided:", 3, "undecided has no value", "fill it in or remove it"),
        ("limits: {}", 3, "limits is empty", ""),
        ("limits: 5", 3, "limits must be a mapping of keys, got 5", ""),
        ("limits: {error_rate: 1%}", 3, "limits.error_rate must be a mapping of keys", ""),
        ("limits: {error_rate: {max: 100%}}", 3, "a percentage from 0% to below 100%", ""),
        ("limits: {throughput: {min: 2000}}", 3, 'write "2000 tok/s"', ""),
        ("limits: {throughput: {min: 20/s}}", 3, "is not a unit of this value; use one of tok/s", ""),
        ("limits: {headroom: {max_drop: 5%, to: 150%}}", 3, "use one of pt", ""),
        ("limits: {headroom: {max_drop: 5pt}}", 3, 'limits.headroom lacks the key "to"', ""),
        ("limits: {headroom: {max_drop: 5pt, from: 150%, to: 150%}}", 3, "must lie above `from`", ""),
        ("regression: {required: true}", 3, "regression compares no metric", "ttft"),
        ("regression: {required: 1, ttft: {p99: {max: 1%}}}", 3, "must be true or false, got 1", ""),
        ("regression: {ttft: {mean: {max: 10%}}}", 3, 'unknown statistic "mean"', ""),
        ("regression: {ttft: {p99: {and_at_least: 20ms}}}", 3, 'lacks the key "max"', ""),
        ("evidence: {runs: 30}", 3, "evidence.runs must be a mapping of keys, got 30", ""),
        ("evidence: {runs: {min: 0}}", 3, "expected a whole number from 1", ""),
        ("evidence: {runs: {min: 2.5}}", 3, "expected a whole number from 1", ""),
        ("evidence: {runs: {min: many}}", 3, 'got "many"', ""),
        ("evidence: {runs: {level: warn}}", 3, 'evidence.runs lacks the key "min"', ""),
        ("evidence: {tool: {level: warn}}", 3, "evidence.tool asks for nothing", "version: required"),
        ("evidence: {tool: {version: 0.9}}", 3, "must be one of required", ""),
        ("evidence: {prompts: same}", 3, "must be one of varied", ""),
        ("evidence: {warmup: atuo}", 3, "must be auto or a whole number", ""),
        ("evidence: {warmup: -1}", 3, "expected a whole number from 0", ""),
        ("evidence: {decide: sure}", 3, "must be one of confident, point", ""),
        ("semantics: {cancelled: miss it}", 3, "must be one of exclude, miss", ""),
        ("workload: {hardware: 8}", 3, 'expected text, got 8; write "8" in quotes', ""),
        ('workload: {model: "  "}', 3, "expected 1 to 200 characters", ""),
        ("workload: {interaction: chat}", 3, "must be one of streaming-chat", "streaming-chat"),
        ("workload: {load: {sweep: [50%]}}", 3, "workload.load names no load", "exactly one"),
        ("workload: {load: {concurrency: 8, request_rate: 2/s}}", 3, "concurrency and request_rate", ""),
        ("workload: {load: {concurrency: 8, peak: 4}}", 3, "concurrency and peak", "exactly one"),
        ("workload: {load: {qps: 8, peak: 4}}", 3, 'unknown key "qps"', 'did you mean "request_rate"?'),
        ("workload: {load: {request_rate: 20}}", 3, 'the bare number 20 has no unit: write "20 req/s"', ""),
        ("workload: {load: {peak: 4, sweep: 50%}}", 3, "must be a list of 1 to 20 percentages", ""),
        ("workload: {load: {peak: 4, sweep: []}}", 3, "must be a list of 1 to 20 percentages", ""),
        ("workload: {load: {peak: 4, sweep: [50%, 50 %]}}", 3, "names a load twice", ""),
        ("workload: {load: {peak: 4, sweep: [0.5]}}", 3, 'write "0.5%" or "50%"', ""),
        ("workload: {input_tokens: {mean: 0}}", 3, "expected a plain number above 0", ""),
        ("workload: {input_tokens: {tolerance: 5%}}", 3, 'lacks the key "mean"', ""),
        ("version2: 1", 3, 'unknown key "version2"', 'did you mean "version"?'),
        ("waivers: {objective: ttft.p99}", 3, "waivers must be a list", ""),
        ("profiles: {}", 3, "profiles must be a mapping of 1 to 20 names", ""),
    ],
)
def test_a_key_or_value_that_means_nothing_is_refused(text: str, line: int, message: str, hint: str) -> None:
    assert_refused(f"{P99}{text}\n", line, message, hint)


@pytest.mark.parametrize(
    ("version", "message"), [("2", "must be 1, got 2"), ("'1'", 'must be 1, got "1"'), ("true", "got true")]
)
def test_another_version_is_refused(version: str, message: str) -> None:
    assert_refused(f"version: {version}\nslo: {{ttft: {{p99: 1s}}}}\n", 1, message, "reads version 1")


def test_a_policy_without_a_version_is_refused() -> None:
    assert_refused("slo: {ttft: {p99: 1s}}\n", 1, 'the policy lacks the key "version"', "version:")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "slo: {ttft: {p99: 1s, undecided: lean}}",
            '"undecided" is a top-level key: move it to the left margin',
        ),
        ("slo: {ttft: {p99: 1s}, p90: 1s}", "p90 stands under a metric, such as slo.ttft.p90"),
        ("confidence: 95%", '"confidence" is a key of evidence: move it there'),
        ("goodput: {min: 99%, error_rate: 1%}", '"error_rate" is a key of limits: move it there'),
        (
            "limits: {ttft: 1s}",
            '"ttft" is a key of slo and of goodput.request and of regression: move it there',
        ),
        ("workload: {concurrency: 8}", '"concurrency" is a key of workload.load: move it there'),
        ("undecidd: lean", 'did you mean "undecided"?'),
        ("level: warn", "write one of version, name"),
        (
            "profiles: {pr: {goodput: {min: 95%}, min: 95%, runs: 5}}",
            '"runs" is a key of evidence: move it there',
        ),
    ],
)
def test_a_key_at_the_wrong_level_is_told_its_own(text: str, hint: str) -> None:
    base = "" if text.startswith("slo") else "slo: {ttft: {p99: 1s}}\n"
    base += "" if "goodput" in text.split("profiles")[0] else "goodput: {min: 99%}\n"
    found = refusal(f"version: 1\n{base}{text}\n")
    assert hint in f"{found.message} {found.hint}"


def test_every_key_of_the_grammar_is_found_at_its_own_level() -> None:
    """Each key that stands in one mapping alone, written at a wrong one, is told where it belongs."""
    places: dict[str, set[str]] = {}

    def walk(kind: object, at: str) -> None:
        shape = kind.item if isinstance(kind, Many) else kind
        for name, key in shape.keys.items() if isinstance(shape, Shape) else ():
            places.setdefault(name, set()).add(at)
            walk(key.type, f"{at}.{name}".lstrip("."))

    walk(TOP, "")
    alone = {name: at for name, found in places.items() if len(found) == 1 for at in found}
    assert len(alone) > 40
    for name, at in alone.items():
        found = refusal(f"version: 1\nslo: {{ttft: {{p99: 1s, {name}: 1}}}}\n" if at != "slo.ttft" else "")
        assert ("is a top-level key" if not at else f"is a key of {at}") in found.hint, name


def test_default_profile_must_be_a_profile_of_the_policy() -> None:
    base = "version: 1\nslo: {ttft: {p99: 1s}}\ndefault_profile: "
    assert_refused(
        f"{base}pr\nprofiles: {{prs: {{undecided: lean}}}}\n", 3, 'names "pr", which is no', '"prs"'
    )
    assert_refused(f"{base}pr\n", 3, 'names "pr", which is no profile', "")
    assert_refused(f"{base}[pr]\n", 3, "expected text", "")
    assert_refused(
        f"{base}none\nprofiles: {{none: {{undecided: lean}}}}\n", 4, "without a profile", "another name"
    )
    assert_refused(
        f"{base}a\nprofiles: {{a: {{default_profile: a}}}}\n", 4, "may not change default_profile", ""
    )


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        ("tfft", '"ttft"'),
        ("latency", '"e2e"'),
        ("e2el", '"e2e"'),
        ("inter_token_latency", '"itl"'),
        ("zzz", "write one of ttft, tpot, itl, e2e"),
    ],
)
def test_an_unknown_metric_is_refused_with_the_near_one(metric: str, hint: str) -> None:
    assert_refused(
        f"version: 1\nslo:\n  ttft: {{p99: 1s}}\n  {metric}: {{p99: 1s}}\n",
        4,
        f'unknown key "{metric}" in slo',
        hint,
    )


def test_several_problems_are_named_in_one_message_each_with_its_line() -> None:
    error = refusal("version: 1\nslo:\n  tfft: {p99: 1s}\n  tpot: {p99: 25}\ngodput: {min: 99%}\n")
    assert str(error).splitlines() == [
        'slo.yaml:3: unknown key "tfft" in slo (did you mean "ttft"?)',
        'slo.yaml:4: slo.tpot.p99: the bare number 25 has no unit: write "25 ms" or "25 s"',
        'slo.yaml:5: unknown key "godput" (did you mean "goodput"?)',
    ]
    assert error.hint.startswith("3 problems")


def test_a_huge_or_unprintable_value_leaves_a_short_message() -> None:
    error = refusal("version: 1\nslo:\n  ttft: {p99: " + '"' + "\\x1b" * 5 + "x" * 100_000 + '"}\n')
    assert len(str(error)) < 500
    assert "\x1b" not in str(error)


# ---- meaning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\n",
        "version: 1\nworkload: {model: llama*, load: {peak: 4, sweep: [50%]}}\n",
        "version: 1\nevidence: {runs: {min: 30}, prompts: varied}\n",
    ],
)
def test_a_policy_without_an_objective_is_refused(text: str) -> None:
    assert_refused(text, 1, "the policy has no objective", "add `slo:`")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("limits: {throughput: {min: 10 tok/s}}", 2, "throughput cannot be the only gate"),
        ("limits: {throughput: {min: 10 tok/s, level: warn}}", 2, "throughput cannot be the only gate"),
        (
            "slo: {ttft: {p99: {max: 1s, level: info}}}\nlimits: {throughput: {min: 10 tok/s}}",
            3,
            "throughput cannot be the only gate",
        ),
        ("slo: {ttft: {p99: {max: 1s, level: info}}}", 2, "nothing in the policy can block or warn"),
        ("regression: {ttft: {p99: {max: 10%, level: info}}}", 2, "nothing in the policy can block or warn"),
        ("limits: {headroom: {max_drop: 5pt, to: 150%}}", 2, "headroom cannot be the only gate"),
    ],
)
def test_a_policy_that_gates_nothing_is_refused(text: str, line: int, message: str) -> None:
    assert_refused(f"version: 1\n{text}\n", line, message, "add a goodput, a percentile or an error rate")


@pytest.mark.parametrize(
    "text",
    [
        "slo: {ttft: {p50: {max: 1s, level: warn}}}",
        "limits: {error_rate: {max: 0%}}",
        "goodput: {min: 100%, request: {e2e: 3s}}",
    ],
)
def test_one_percentile_error_rate_or_goodput_is_enough(text: str) -> None:
    assert len(policy.parse(f"version: 1\n{text}\n".encode(), "slo.yaml").objectives) == 1


def test_a_mean_without_its_p99_is_refused() -> None:
    text = "version: 1\nslo:\n  tpot: {p99: 1s}\n  ttft:\n    p90: 1s\n    mean: 300ms\n"
    assert_refused(text, 6, "ttft.mean stands without the P99 of ttft", "add slo.ttft.p99")


@pytest.mark.parametrize("level", ["block", "warn"])
def test_a_mean_that_would_gate_is_refused(level: str) -> None:
    text = f"version: 1\nslo:\n  ttft:\n    p99: 1s\n    mean: {{max: 300ms, level: {level}}}\n"
    assert_refused(text, 5, "is shown and never judged", "write `level: info`")


@pytest.mark.parametrize(
    "pair",
    [
        "- 1s\n      - 2s",
        "- {max: 1s, when: output_tokens < 300}\n      - {max: 2s, when: output_tokens <= 299}",
        "- {max: 1s, when: input_tokens > 1 and output_tokens < 3}\n"
        "      - {max: 1s, when: output_tokens < 3 and input_tokens > 1}",
        "- 1s\n      - {max: 2s, when: output_tokens >= 0}",
    ],
)
def test_two_bounds_for_the_same_requests_are_refused_however_they_are_written(pair: str) -> None:
    text = f"version: 1\nslo:\n  ttft:\n    p99:\n      {pair}\n"
    assert_refused(text, 6, "has two bounds for the same requests, here and in line 5", "keep one")
    text = f"version: 1\ngoodput:\n  min: 99%\n  request:\n    ttft:\n      {pair}\n"
    assert_refused(text, 7, "has two bounds for the same requests, here and in line 6", "keep one")


def test_more_than_twenty_bounds_of_a_statistic_are_refused() -> None:
    many = ", ".join(f"{{max: 1s, when: output_tokens < {n}}}" for n in range(1, 3000))
    assert_refused(f"version: 1\nslo:\n  ttft: {{p99: [{many}]}}\n", 3, "must list 1 to 20 bounds")


@pytest.mark.parametrize(
    "slo",
    [
        "limits: {error_rate: {max: 1%}}",
        "slo: {itl: {p99: 50ms}}",
        "slo: {ttft: {p99: {max: 1s, level: warn}}}",
    ],
)
def test_a_goodput_without_any_bound_is_refused(slo: str) -> None:
    assert_refused(
        f"version: 1\n{slo}\ngoodput: {{min: 99%}}\n", 3, "goodput has no bound", "goodput.request"
    )


@pytest.mark.parametrize(
    ("request_", "message", "hint"),
    [
        ("{itl: 50ms}", "itl cannot be a bound of goodput: a request has many gaps", "bound tpot instead"),
        ("{tfft: 50ms}", 'unknown metric "tfft" in goodput.request', 'did you mean "ttft"?'),
        ("{ttft: {max: 1s, level: warn}}", 'unknown key "level"', ""),
        ("{ttft: 1}", 'write "1 ms" or "1 s"', ""),
        ("{}", "goodput.request is empty", ""),
    ],
)
def test_a_request_bound_that_cannot_be_is_refused(request_: str, message: str, hint: str) -> None:
    assert_refused(f"{P99}goodput: {{min: 99%, request: {request_}}}\n", 3, message, hint)


def waiver(objective: str = "ttft.p99", until: str = "2027-01-31") -> str:
    return f"  - {{objective: {objective}, until: {until}, owner: me, reason: because}}\n"


def test_a_waiver_of_an_unknown_objective_is_refused_with_the_near_one() -> None:
    text = f"{P99}waivers:\n{waiver('ttft.p98')}"
    assert_refused(text, 4, 'names "ttft.p98", which is no objective', 'did you mean "ttft.p99"?')


@pytest.mark.parametrize("day", ["tomorrow", "2027-02-30", "31.01.2027", "2027-1-31", "20270131"])
def test_a_waiver_until_no_day_is_refused(day: str) -> None:
    error = refusal(f"{P99}waivers:\n{waiver(until=day)}")
    assert error.where == "slo.yaml:4"
    assert re.search("is not a day|expected text", error.message)


def test_an_expired_waiver_loads() -> None:
    loaded = policy.parse(f"{P99}waivers:\n{waiver(until='2001-01-01')}".encode(), "slo.yaml")
    assert [w.until.isoformat() for w in loaded.waivers] == ["2001-01-01"]


def test_two_waivers_of_one_objective_are_refused() -> None:
    assert_refused(f"{P99}waivers:\n{waiver()}{waiver()}", 5, "ttft.p99 is waived twice, here and in line 4")


def test_a_waiver_without_owner_or_reason_is_refused() -> None:
    error = refusal(f"{P99}waivers:\n  - {{objective: ttft.p99, until: 2027-01-31}}\n")
    assert 'waivers[0] lacks the key "owner"' in error.message
    assert 'waivers[0] lacks the key "reason"' in error.message


# ---- an endpoint without tokens -----------------------------------------------------------

TOKENLESS = "version: 1\nworkload: {output_tokens: none}\n"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("slo: {ttft: {p99: 1s}}", "ttft.p99 cannot be judged", "ask for e2e"),
        ("slo: {ttft: {p99: 1s}}\ngoodput: {min: 99%}", "no first token to wait for", ""),
        ("slo: {tpot: {p90: {max: 1s, level: warn}}}", "tpot.p90 cannot be judged", "error_rate"),
        ("slo: {itl: {p99: 1s}}", "itl.p99 cannot be judged", "ask for e2e"),
        ("goodput: {min: 99%, request: {ttft: 1s, e2e: 2s}}", "goodput.request.ttft cannot be judged", ""),
        ("goodput: {min: 99%, request: {tpot: 1s}}", "no time per output token", "ask for e2e"),
        ("slo: {e2e: {p99: 1s}}\nlimits: {throughput: {min: 9 tok/s}}", "throughput cannot be judged", ""),
        ("slo: {e2e: {p99: 1s}}\nregression: {ttft: {p99: {max: 1%}}}", "regression.ttft.p99 cannot be", ""),
        (
            "slo: {e2e: {p99: {max: 1s, when: output_tokens < 9}}}",
            "no output_tokens to choose",
            "input_tokens",
        ),
        (
            "goodput: {min: 99%, request: {e2e: {max: 1s, when: input_tokens > 1 and output_tokens >= 0}}}",
            "goodput.request.e2e cannot be judged: `output_tokens: none` states an endpoint that has no",
            "input_tokens",
        ),
    ],
)
def test_a_bound_on_tokens_is_refused_for_an_endpoint_without_tokens(
    text: str, message: str, hint: str
) -> None:
    limits = "limits:" in text or "regression:" in text
    assert_refused(f"{TOKENLESS}{text}\n", 4 if limits else 3, message, hint)


@pytest.mark.parametrize("value", ["0", "None", "null", "no tokens", "[]", "false"])
def test_only_the_word_none_states_an_endpoint_without_tokens(value: str) -> None:
    error = refusal(f"version: 1\nworkload: {{output_tokens: {value}}}\nslo: {{e2e: {{p99: 1s}}}}\n")
    assert error.where == "slo.yaml:2"
    assert "workload.output_tokens" in error.message


def test_input_tokens_are_never_none() -> None:
    text = f"{P99}workload: {{input_tokens: none}}\n"
    assert_refused(text, 3, 'workload.input_tokens must be a mapping of keys, got "none"')


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("{workload: {output_tokens: {level: warn}}}", "workload.output_tokens is none, which has no level"),
        ("{workload: {output_tokens: {mean: 9}}}", "workload.output_tokens is none, which has no level"),
    ],
)
def test_a_profile_cannot_change_that_there_are_no_tokens(profile: str, message: str) -> None:
    text = f"{TOKENLESS}slo: {{e2e: {{p99: 1s}}}}\nprofiles:\n  pr: {profile}\n"
    assert_refused(text, 5, message, "a profile may change")


# ---- profiles -----------------------------------------------------------------------------

BASE = (
    "version: 1\n"
    "slo: {ttft: {p99: 1s}}\n"
    "limits: {error_rate: {max: 1%}}\n"
    "evidence: {runs: {min: 5}}\n"
    "profiles:\n"
    "  pr:\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slo: {ttft: {p99: 2s}}", "a profile may not change slo.ttft.p99, only its level"),
        ("slo: {ttft: {p99: {max: 2s}}}", "a profile may not change slo.ttft.p99, only its level"),
        ("slo: {ttft: {p99: {level: warn, when: x}}}", "a profile may not change slo.ttft.p99"),
        ("slo: {ttft: {p95: {level: warn}}}", "the policy has no slo.ttft.p95 that a profile could change"),
        ("slo: {tpot: {p99: {level: warn}}}", "the policy has no slo.tpot that a profile could change"),
        ("slo: {ttft: {p99: {level: wran}}}", "with profile pr: slo.ttft.p99.level must be one of block"),
        ("limits: {error_rate: {max: 5%}}", "a profile may not change limits.error_rate, only its level"),
        ("workload: {model: other}", "the policy has no workload.model that a profile could change"),
        ("semantics: {cancelled: miss}", "a profile may not change semantics"),
        ("waivers: []", "a profile may not change waivers"),
        ("name: other", "a profile may not change name"),
        ("version: 1", "a profile may not change version"),
        ("profiles: {x: {undecided: lean}}", "a profile may not change profiles"),
        ("undecidde: lean", 'unknown key "undecidde" in profiles.pr'),
        ("goodput: {min: 95%}", "a profile may not add goodput to a policy without it"),
        ("evidence: {runs: {min: 0}}", "with profile pr: evidence.runs.min: expected a whole number"),
        ("evidence: {requests_per_run: {level: warn}}", 'evidence.requests_per_run lacks the key "min"'),
        ("evidence: {rnus: {min: 1}}", 'with profile pr: unknown key "rnus" in evidence'),
        ("workload: {load: {sweep: [50%]}}", "with profile pr: workload.load names no load"),
        ("undecided:", "profiles.pr.undecided is empty"),
        ("evidence: {}", "profiles.pr.evidence is empty"),
        ("slo: {ttft: {p99: {level: info}}, limits: 1}", "the policy has no slo.limits"),
    ],
)
def test_a_profile_that_goes_too_far_is_refused_with_its_line(text: str, message: str) -> None:
    error = refusal(f"{BASE}    {text}\n")
    assert error.where == "slo.yaml:7"
    assert message in error.message


def test_goodput_request_cannot_change_in_a_profile() -> None:
    text = f"{P99}goodput: {{min: 99%}}\nprofiles:\n  pr:\n    goodput:\n      request: {{ttft: 9s}}\n"
    assert_refused(text, 7, "a profile may not change goodput.request", "goodput.min")


def test_a_profile_that_gates_nothing_is_refused_even_when_it_is_not_used() -> None:
    text = f"{P99}profiles:\n  pr:\n    slo: {{ttft: {{p99: {{level: info}}}}}}\n"
    assert_refused(text, 2, "with profile pr: nothing in the policy can block or warn")


def test_a_profile_with_a_name_for_no_command_line_is_refused() -> None:
    assert_refused(f"{P99}profiles:\n  'my pr': {{undecided: lean}}\n", 4, '"my pr" is not a name')


def test_an_unknown_preset_is_refused_with_the_near_one() -> None:
    with pytest.raises(PolicyError, match='no preset "chatt"') as error:
        policy.preset("chatt")
    assert error.value.hint == 'did you mean "chat"?'
