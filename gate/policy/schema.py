"""The grammar's tables as the JSON Schema that editors read; `check` never imports it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, TypeAlias

from msgspec.structs import replace

from ..model import METRICS
from . import _grammar as grammar, _tables as tables
from ._profiles import FIXED, FREE, MOST, REMOVABLE
from ._types import Key, Many, Scalar, Shape, Type

Json: TypeAlias = "dict[str, Any]"

_ABOUT = "What a benchmark of an LLM-serving deployment must show before slo-gate lets it through."
_TOP = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://json.schemastore.org/slo-gate.json",
    "title": "slo-gate policy",
    "description": f"{_ABOUT} Reference: https://github.com/your-org/slo-gate/blob/main/docs/policy.md",
}
_TITLES = {
    **{name: name.upper() for name in ("slo", *METRICS)},
    "single_token_tpot": "Single-token TPOT",
    "stddev": "Standard deviation",
    "warmup": "Warm-up",
}
_EXAMPLES: dict[str, list[object]] = {
    "when": ["output_tokens < 300", "input_tokens >= 1000 and output_tokens < 300"],
    "production": [{"min": "5 req/s"}],
    "sweep": [["50%", "100%", "150%"]],
    "attempted": ["gateway_requests_total", 'http_requests_total{route="/v1/chat/completions"}'],
}
_PROFILE = (
    "What changes: burden of proof, evidence, load, levels, goodput.min. Null removes evidence or sweep."
)
_LAID_OVER = "Laid over the policy's own; what is left out stays."
_LEVEL = "A profile may change the level of a rule, never its bound."
_ONLY_LEVEL = Shape(level=replace(tables.LEVEL, required=True), about=_LEVEL)


def faults(document: object) -> list[str]:
    """What an editor would say against a policy, given as plain values, one sentence each."""
    from jsonschema import Draft7Validator

    errors = sorted(Draft7Validator(schema()).iter_errors(document), key=lambda error: error.json_path)
    return [f"{error.json_path}: {error.message}" for error in errors]


def schema() -> Json:
    """The JSON Schema (draft 7) of a policy file, as it is published in schemas/policy.schema.json."""
    writer = _Writer()
    profile = writer.key("profile", Key(_changes(tables.TOP, ""), _PROFILE))
    writer.definitions["profiles"] = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST,
        "additionalProperties": False,
        "patternProperties": {grammar.PROFILE: profile},
    }
    return {**_TOP, **writer.mapping(tables.TOP), "definitions": dict(sorted(writer.definitions.items()))}


# ---- what a profile may hold --------------------------------------------------------------


def _changes(shape: Shape, at: str) -> Shape:
    """The keys that a profile may change, with what it may write under them."""
    keys = {name: _change(key, f"{at}.{name}".lstrip(".")) for name, key in shape.keys.items()}
    percentile = _change(shape.percentile, at) if shape.percentile else None
    return Shape({name: key for name, key in keys.items() if key}, percentile=percentile)


def _change(key: Key, at: str) -> Key | None:
    kind = key.type.item if isinstance(key.type, Many) else key.type
    if at in FREE:
        return _laid_over(key, at)
    if at in FIXED or not isinstance(kind, Shape):
        return None
    if level := kind.keys.get("level"):
        own = Shape(level=replace(level, required=True), about=_LEVEL)
        return Key(_ONLY_LEVEL if level is tables.LEVEL else own)
    return Key(_changes(kind, at), "Levels of the rules that the policy has.")


def _laid_over(key: Key, at: str) -> Key:
    """A key of which a part may stand, or null where that removes it."""
    kind, nullable = key.type, bool(REMOVABLE.fullmatch(at))
    if isinstance(kind, Shape):
        keys = {name: _laid_over(inner, f"{at}.{name}") for name, inner in kind.keys.items()}
        keys = {name: inner for name, inner in keys.items() if f"{at}.{name}" not in FIXED}
        choice = kind.choice and replace(kind.choice, none="")
        kind = Shape(keys, short=kind.short, choice=choice, about=_LAID_OVER)
    elif not key.required and not nullable:
        return key
    return replace(key, type=kind, required=False, nullable=nullable)


# ---- as JSON ------------------------------------------------------------------------------


class _Writer:
    """Tables as JSON; what has a name is written once, as a definition."""

    def __init__(self) -> None:
        self.definitions: Json = {}
        self.names: dict[int, str] = {id(_ONLY_LEVEL): "only_level"}
        for name, value in vars(tables).items():
            if name in ("METRIC", "GROWTH_METRIC", "PROFILES") or isinstance(value, (Key, Scalar, Many)):
                self.names[id(value)] = name.lower().lstrip("_")
            if isinstance(value, Many):
                self.names[id(value.item)] = name.lower().removesuffix("s")

    def _written(self, table: Key | Type, write: Callable[[], Json]) -> Json:
        name = self.names.get(id(table))
        if name is None:
            return write()
        if name not in self.definitions:
            self.definitions[name] = write()
        return {"$ref": f"#/definitions/{name}"}

    def key(self, name: str, key: Key) -> Json:
        """What stands under a key, with what an editor shows of it."""
        body = self._written(key, lambda: self._described(name, key))
        return {"anyOf": [body, {"type": "null"}]} if key.nullable else body

    def _described(self, name: str, key: Key) -> Json:
        body = self.type(key.type)
        if not key.about:
            return body
        head = {"title": _TITLES.get(name, name.replace("_", " ").capitalize()), "description": key.about}
        body = {**head, **({"allOf": [body]} if "$ref" in body else body), **head}
        if key.default is not None:
            body["default"] = key.default
        return {**body, "examples": _EXAMPLES[name]} if name in _EXAMPLES else body

    def type(self, kind: Type) -> Json:
        """What a value must be."""
        return self._written(kind, lambda: self._body(kind))

    def _body(self, kind: Type) -> Json:
        if isinstance(kind, Scalar):
            return kind.schema
        if isinstance(kind, Many):
            item = self.type(kind.item)
            array: Json = {"type": "array", "items": item}
            if kind.most:
                array |= {"minItems": 1, "maxItems": kind.most}
            return {"anyOf": [item, array]} if kind.single else array
        body = self.mapping(kind)
        if kind.word or kind.short:
            short = self.type(kind.keys[kind.short].type) if kind.short else {"enum": [kind.word]}
            return {"anyOf": [short, body]}
        return body

    def mapping(self, shape: Shape) -> Json:
        """The keys a mapping may and must have."""
        body: Json = {"description": shape.about} if shape.about else {}
        body |= {"type": "object", "additionalProperties": False, "minProperties": 1}
        body["properties"] = {name: self.key(name, key) for name, key in shape.keys.items()}
        if shape.percentile:
            body["patternProperties"] = {grammar.PERCENTILE: self.key("percentile", shape.percentile)}
        if required := [name for name, key in shape.keys.items() if key.required]:
            body["required"] = required
        if choice := shape.choice:
            keys = [{"required": [name]} for name in choice.keys]
            if choice.none:
                body["oneOf" if choice.exactly else "anyOf"] = keys
            elif choice.exactly:
                pairs = combinations(choice.keys, 2)
                body["not"] = {"anyOf": [{"required": list(pair)} for pair in pairs]}
        return body
