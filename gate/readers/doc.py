"""One JSON object of a result file, its fields decoded one by one as they are used."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np

from ..model import Floats
from .stored import AGAIN, Stored

T = TypeVar("T")
BROKEN = (msgspec.MsgspecError, RecursionError)  # what decoding hostile JSON may raise


class Doc:
    """One JSON object with its fields still undecoded, so that only what is used is decoded."""

    def __init__(self, source: Stored, fields: dict[str, msgspec.Raw], at: str = "$") -> None:
        self.source = source
        self.fields = fields
        self.at = at

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def get(self, key: str, kind: type[T]) -> T | None:
        """The field as `kind` (None if absent or null). Raises InputError for another type."""
        if key not in self.fields:
            return None
        try:
            return msgspec.json.decode(self.fields[key], type=kind | None)
        except BROKEN as error:
            why = str(error)
            raise self.source.fail(why[:1].lower() + why[1:], f"{self.at}.{key}", AGAIN) from None

    def any(self, key: str) -> Any:
        """The field as plain Python objects, None if absent. Raises InputError for broken text."""
        if key not in self.fields:
            return None
        try:
            return msgspec.json.decode(self.fields[key])
        except BROKEN as error:  # skipped strings are checked only here
            raise self.source.fail(f"is not JSON: {error}", f"{self.at}.{key}") from None

    def number(self, key: str) -> float | None:
        """The field as a finite number; null, NaN, infinity and absence are None."""
        value = self.get(key, float | str)  # type: ignore[arg-type]
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                why = f'expected a number, got "{value}"'
                raise self.source.fail(why, f"{self.at}.{key}", AGAIN) from None
        return value if value is not None and np.isfinite(value) else None

    def count(self, key: str) -> int | None:
        """The field as a whole number of things."""
        value = self.number(key)
        if value is not None and (value < 0 or value != int(value)):
            raise self.source.fail(f"expected a count, got {value:g}", f"{self.at}.{key}", AGAIN)
        return None if value is None else int(value)

    def part(self, key: str) -> Doc | None:
        """The object in the field, undecoded; None if absent or null. Raises InputError for anything else."""
        fields = self.get(key, dict[str, msgspec.Raw])
        return None if fields is None else Doc(self.source, fields, f"{self.at}.{key}")

    def mapping(self, key: str) -> dict[str, Any]:
        """The field as a mapping; empty where it is none."""
        value = self.any(key)
        return value if isinstance(value, dict) else {}

    def inner(self, key: str) -> frozenset[str]:
        """Keys of the object in the field, or of the first in its list; empty for anything else."""
        try:
            value = msgspec.json.decode(self.fields[key], type=dict[str, msgspec.Raw] | list[msgspec.Raw])
            if isinstance(value, list):
                value = msgspec.json.decode(value[0], type=dict[str, msgspec.Raw])
        except (KeyError, IndexError, *BROKEN):
            return frozenset()
        return frozenset(value)

    def text(self, key: str) -> str | None:
        """The field as text; numbers and booleans as they print."""
        value = self.any(key)
        return None if value is None or isinstance(value, (dict, list)) else str(value)

    def floats(self, key: str) -> Floats | None:
        """The field, an array of numbers, as float64, None if absent or null; null and NaN cells are NaN."""
        if key not in self.fields:
            return None
        try:
            return np.array(msgspec.json.decode(self.fields[key], type=list[float]), dtype=np.float64)
        except BROKEN:
            cells = self.get(key, list[float | str | None])
            known = [np.nan if cell is None or isinstance(cell, str) else cell for cell in cells or ()]
            return None if cells is None else np.array(known, dtype=np.float64)
