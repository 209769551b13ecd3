"""A policy against the published JSON Schema: what an editor would say of it. Imports jsonschema."""

from __future__ import annotations

from jsonschema import Draft7Validator

from .._schemas import load


def faults(document: object) -> list[str]:
    """What the published schema says against the plain values of a policy, one sentence each."""
    found = Draft7Validator(load("policy")).iter_errors(document)
    ordered = sorted(found, key=lambda error: error.json_path)
    return [f"{error.json_path}: {error.message}" for error in ordered]
