"""SARIF held to the schema that OASIS publishes, as Microsoft's package carries it."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from gate.emit.sarif import emit
from tests.emit.reports import CASES
from tests.npm.conftest import installed


@pytest.mark.parametrize("case", CASES)
def test_every_verdict_is_valid_sarif(case: str) -> None:
    schema = json.loads(installed("@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json").read_bytes())
    known = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
    log = json.loads(emit(CASES[case]()))
    assert [f"{fault.json_path}: {fault.message}" for fault in known.iter_errors(log)] == []
    log["runs"][0]["results"].append({"message": 7})
    assert not known.is_valid(log)
