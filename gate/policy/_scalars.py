"""Unquoted YAML scalars, read by the rules on which YAML 1.1, YAML 1.2 and people agree."""

from __future__ import annotations

import re
from typing import TypeAlias

Scalar: TypeAlias = "str | int | float | bool | None"
Trap: TypeAlias = "tuple[str, str]"  # why a scalar is refused, and what to write instead

_WORDS: dict[str, bool | None] = {"": None, "~": None}
for _word, _value in (("null", None), ("true", True), ("false", False)):
    _WORDS.update({_word: _value, _word.title(): _value, _word.upper(): _value})

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+")
_MAX_DIGITS = 15  # what a float holds exactly
_SWITCH = re.compile(r"y|yes|n|no|on|off", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[-+]?\.?(?:nan|inf|infinity)", re.IGNORECASE)
_CLOCK = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_EXPONENT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
_UNDERSCORE = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?")
_BASE = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)")
_PADDED = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]+)?")
_HALF = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.)")


def resolve(text: str) -> tuple[Scalar, Trap | None]:
    """The value of an unquoted scalar, or why it is refused.

    Dates stay text. A spelling that the versions of YAML read differently (`on`, `12:30`, `1e3`,
    `1_000`, `010`) or that is not finite is a trap.
    """
    if text in _WORDS:
        return _WORDS[text], None
    if _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text):
        if sum(c.isdigit() for c in text) > _MAX_DIGITS:
            return None, (f"{text[:20]}... has more digits than a number holds", "write fewer digits")
        return (float(text) if "." in text else int(text)), None
    trap = _trap(text)
    return (None, trap) if trap else (text, None)


def _trap(text: str) -> Trap | None:
    if len(text) > 40:
        return None  # prose; and no pattern below is ever run on a megabyte
    differs, bare = "to some YAML readers and text to others", text.replace("_", "")
    if _SWITCH.fullmatch(text):
        boolean = "true" if text.lower() in ("y", "yes", "on") else "false"
        return (
            f"{text} is true or false {differs}",
            f'write {boolean}, or "{text}" in quotes if the text is meant',
        )
    if _NOT_FINITE.fullmatch(text):
        return f"{text} is not a finite number", "write a number with its unit"
    if _CLOCK.fullmatch(text):
        number = _sexagesimal(text)
        why = f"{text} is the number {number} to some YAML readers (base 60) and text to others"
        return why, f'write a quantity such as "{number} s", or "{text}" in quotes'
    if _BASE.fullmatch(text):
        return f"{text} is a number in another base", f"write {int(bare, 0)}, or quote it"
    if _EXPONENT.fullmatch(text):
        return f"{text} is a number {differs}", _written_out(float(text))
    if "_" in text and _UNDERSCORE.fullmatch(text):
        return f"{text} is {bare} {differs}", f"write {bare}"
    if _PADDED.fullmatch(text):
        octal = f"{int(text, 8)} to some YAML readers" if re.fullmatch(r"0[0-7]+", text) else "no number"
        return f"{text} starts with a 0 and is {octal}", f"write {text.lstrip('+-0') or 0}, or quote it"
    if _HALF.fullmatch(text):
        return f"{text} lacks a digit beside its point", f"write {float(text):g}"
    return None


def _sexagesimal(text: str) -> str:
    total = 0.0
    for part in text.lstrip("+-").split(":"):
        total = total * 60 + float(part)
    return f"{total:g}"


def _written_out(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "write a finite number"
    return f"write {value:f}".rstrip("0").rstrip(".") + ", or quote it"
