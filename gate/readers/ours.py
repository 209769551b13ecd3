"""What slo-gate wrote or reads besides results: skipped by what it holds, whatever it is called."""

from __future__ import annotations

import re
from pathlib import Path

from .. import disk
from ..errors import GateError
from .files import PAGES, side_file
from .source import Source

REPORT = re.compile(r'\s*\{\s*"schema_version"\s*:\s*1\s*,\s*"verdict"\s*:')
_JSON = re.compile(r'\s*\{\s*"schema_version"\s*:\s*1\s*,\s*"(comparisons|headline|looser|policy|tools)"\s*:')
_TEXT = re.compile(
    r"(PASS|WARN|FAIL|INCONCLUSIVE|ERROR) .*\n((Next|Change): .*\n)*(exit code \d+\n\Z|\n[\s\S]*\nMeasured  )"
)
_MARKDOWN = re.compile(r"### (PASS|WARN|FAIL|INCONCLUSIVE|ERROR) ")
_POLICY = re.compile(r"(?m)^version: *1 *(#.*)?$")
_RULES = {"slo", "goodput", "limits", "regression"}
_FINDING = {"check_name", "description", "fingerprint", "location", "severity"}
_INSPECTION = {"judged", "unjudged", "definitions", "tool_reported"}


def kind(source: Source) -> str | None:
    """What of slo-gate's own a file is, in a few words; None for anything else."""
    if source.shape == "text" and _POLICY.search(source.head) and source.yaml_keys & _RULES:
        return "a policy"
    return _output(source)


def written(path: Path) -> bool:
    """Whether a file is an output of slo-gate; it is only looked at, and an output may replace it."""
    source = Source(path, disk.shown(path))
    try:
        return side_file(source) in PAGES or _is_empty_list(source) or _output(source) is not None
    except GateError:
        return False
    finally:
        disk.let_go(path)


def _output(source: Source) -> str | None:
    shape, head = source.shape, source.head
    if shape in ("object", "broken") and REPORT.match(head):  # broken: a writer was killed
        return "a report of slo-gate"
    if shape == "object":
        if _JSON.match(head):
            return "an answer of slo-gate"
        if source.keys >= {"$schema", "runs", "version"} and "sarif" in str(source.doc.any("$schema")):
            return "a SARIF log"
    elif shape == "array":
        if source.keys >= _FINDING or (_is_empty_list(source) and _code_quality(source)):
            return "a code-quality report"
        if source.keys >= _INSPECTION:
            return "an inspection of slo-gate"
    elif shape == "text":
        if head.startswith("# TYPE slo_gate_"):
            return "metrics of slo-gate"
        if _TEXT.match(head) or _MARKDOWN.match(head):
            return "a text of slo-gate"
        if head.lstrip().startswith(("<?xml", "<!DOCTYPE html")):
            return "a page"
    return None


def _is_empty_list(source: Source) -> bool:
    """Whether it may be a code-quality report without findings; it may be a benchmark without rows, too."""
    return bytes(source.data[:9]).split() == [b"[]"]


def _code_quality(source: Source) -> bool:
    """Whether the name of a report without findings, which is an empty list, says what it is."""
    return re.search(r"code.?quality", source.name, re.IGNORECASE) is not None
