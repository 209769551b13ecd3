"""The published contract: DESIGN section 5, held to the schema and to plain values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import orjson
import pytest

from gate.emit.json_ import emit
from gate.model import Load, MetricStats
from tests.conftest import ROOT
from tests.emit.reports import CASES, METRICS, failed_to_read, failing, make_check, make_report, make_run

SCHEMA = json.loads((ROOT / "schemas" / "report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

# Written down from DESIGN section 5, not from the code or the schema.
CONTRACT = {
    "": "schema_version verdict exit_code headline policy inputs runs objectives goodput metrics notes",
    "policy": "name path sha256 profile undecided",
    "inputs": "path sha256 format tool tool_version",
    "runs": "input format tool tool_version model hardware session load evidence at_target counts "
    "duration_s goodput metrics notes",
    "objectives": "id metric statistic level operator bound unit observed interval interval_of n misses "
    "misses_range n_eff deff verdict cause reason policy_line waived",
    "goodput": "fraction interval good attempted requests_per_s tokens_per_s misses",
    "metrics": "ttft_s tpot_s itl_s e2e_s",
}


def load(report: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(emit(report))
    VALIDATOR.validate(document)
    return document


@pytest.mark.parametrize("case", CASES)
def test_every_report_validates_and_parses_strictly(case: str) -> None:
    document = load(CASES[case]())
    assert orjson.loads(emit(CASES[case]())) == document


@pytest.mark.parametrize("part", CONTRACT)
def test_every_key_of_the_contract_is_there(part: str) -> None:
    document = load(failing())
    found = document[part] if part else document
    for item in found if isinstance(found, list) else [found]:
        assert set(CONTRACT[part].split()) <= set(item)


def test_counts_misses_and_metric_values_keep_their_keys() -> None:
    document = load(failing())
    assert document["runs"][0]["counts"] == {
        "attempted": 3000, "completed": 2970, "failed": 30, "cancelled": 4, "warmup": 64,
    }  # fmt: skip
    assert document["goodput"]["misses"] == {"ttft": 175, "tpot": 12, "e2e": 20, "several": 9, "failed": 30}
    assert document["metrics"]["itl_s"] is None
    stats = {"n", "p50", "p90", "p99", "mean", "min", "max", "tool_reported", "doubt"}
    assert set(document["metrics"]["ttft_s"]) == stats


def test_values_stay_in_base_units_with_every_digit() -> None:
    document = load(make_report(checks=(make_check(observed=0.021900000000000003),)))
    assert document["objectives"][0]["observed"] == 0.021900000000000003
    assert document["objectives"][0]["bound"] == 0.025
    assert document["objectives"][0]["verdict"] == "pass"
    assert document["objectives"][0]["level"] == "block"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_number_that_json_does_not_have_is_null(value: float) -> None:
    stats = MetricStats(1, value, value, value, value, value, value, {"p50": value})
    check = make_check(observed=value, interval=(0.5, value))
    document = load(make_report(checks=(check,), metrics={**METRICS, "tpot_s": stats}))
    assert document["objectives"][0]["observed"] is None
    assert document["objectives"][0]["interval"] == [0.5, None]
    assert document["metrics"]["tpot_s"]["p50"] is None
    assert document["metrics"]["tpot_s"]["tool_reported"] == {"p50": None}


def test_numpy_numbers_are_numbers() -> None:
    document = load(make_report(checks=(make_check(n=np.int64(3), observed=np.float64(0.5)),)))
    assert (document["objectives"][0]["n"], document["objectives"][0]["observed"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("load_point", "shown"),
    [
        (Load(concurrency=64), {"concurrency": 64}),
        (Load(request_rate=12.5), {"request_rate": 12.5}),
        (Load(request_rate=12.5, cap=256), {"request_rate": 12.5, "cap": 256}),
        (Load(burst=True), {"burst": True}),
        (None, None),
    ],
)
def test_a_load_has_exactly_one_kind(load_point: Load | None, shown: Any) -> None:
    assert load(make_report(runs=(make_run(load=load_point),)))["runs"][0]["load"] == shown


def test_without_a_goodput_section_goodput_is_null() -> None:
    document = load(make_report(goodput=None, runs=(make_run(goodput=None),)))
    assert document["goodput"] is None
    assert document["runs"][0]["goodput"] is None


def test_an_error_has_its_own_small_shape() -> None:
    assert load(failed_to_read()) == {
        "schema_version": 1,
        "verdict": "error",
        "exit_code": 3,
        "headline": "ERROR slo-gate: results/run-01.json: the JSON ends in the middle",
        "error": {
            "message": "the JSON ends in the middle",
            "where": "results/run-01.json: $.ttfts[1711]",
            "hint": "run the benchmark again, or copy the file whole",
        },
        "policy": {"name": "chat-70b", "path": "slo.yaml", "profile": None},
    }


def test_report_only_is_said() -> None:
    assert load(CASES["percentiles"]())["report_only"] is True
    assert load(CASES["fail"]())["report_only"] is False


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    text = emit(make_report(notes=("caf\udce9.json",)))
    assert orjson.loads(text)["notes"] == ["caf\ufffd.json"]


def test_no_line_holds_a_command_for_a_ci_runner() -> None:
    name = "x ##[add-mask]a ##vso[task.complete] \\##"
    text = emit(make_report(notes=(name,)))
    assert "##" not in text
    assert json.loads(text)["notes"] == [name]


# ---- the schema itself --------------------------------------------------------------------


def test_the_schema_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def undescribed(schema: dict[str, Any], value: Any, at: str = "$") -> Iterator[str]:
    """Keys of `value` that no part of `schema` names."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for option in (o for kind in ("anyOf", "oneOf") for o in schema.get(kind, ()) if "required" not in o):
        if jsonschema.Draft202012Validator({**option, "$defs": SCHEMA["$defs"]}).is_valid(value):
            yield from undescribed(option, value, at)
            return
    if isinstance(value, dict) and "additionalProperties" not in schema:
        for key, item in value.items():
            if key not in schema.get("properties", {}):
                yield f"{at}.{key}"
            else:
                yield from undescribed(schema["properties"][key], item, f"{at}.{key}")
    if isinstance(value, list) and "items" in schema:
        for item in value:
            yield from undescribed(schema["items"], item, f"{at}[]")


@pytest.mark.parametrize("case", CASES)
def test_the_schema_names_every_key_that_is_written(case: str) -> None:
    assert list(undescribed(SCHEMA, load(CASES[case]()))) == []


def test_a_key_without_a_name_in_the_schema_would_be_found() -> None:
    document = load(failing())
    document["runs"][0]["counts"]["lost"] = 1
    assert list(undescribed(SCHEMA, document)) == ["$.runs[].counts.lost"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "unknown"),
        (("schema_version",), 2),
        (("exit_code",), 3),
        (("objectives", 0, "misses"), "8"),
        (("objectives", 0, "interval"), [0.1]),
        (("runs", 0, "load"), {"concurrency": 1, "burst": True}),
        (("runs", 0, "evidence"), "guess"),
        (("runs", 0, "counts", "failed"), -1),
        (("error",), "an error and a verdict at once are neither"),
    ],
)
def test_the_schema_refuses_what_breaks_the_contract(path: tuple[Any, ...], value: Any) -> None:
    document = load(failing())
    if path == ("error",):
        document |= {"verdict": "error"}
    part: Any = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize("key", SCHEMA["$defs"]["report"]["required"])
def test_the_schema_requires_every_top_level_key(key: str) -> None:
    document = load(failing())
    del document[key]
    assert not VALIDATOR.is_valid(document)


def test_a_reader_of_version_1_accepts_keys_that_are_added_later() -> None:
    document = load(failing())
    document["gpu_hours"] = 3
    document["objectives"][0]["owner"] = "serving"
    assert VALIDATOR.is_valid(document)


def names(schema: dict[str, Any]) -> Iterator[str]:
    for key, part in schema.get("properties", {}).items():
        yield key
        yield from names(part)


@pytest.mark.parametrize("noun", SCHEMA["$defs"])
def test_the_docs_name_every_key_of_the_schema(noun: str) -> None:
    docs = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    assert [key for key in names(SCHEMA["$defs"][noun]) if not re.search(rf"`{key}(\[\])?`", docs)] == []
