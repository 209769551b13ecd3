"""The memory of a gate: what each session measured, in stores that are only ever appended to."""

from .baseline import offered
from .lines import MOST_BYTES, decode, encode, is_time, name_of
from .records import record_of, why_left_out
from .stores import History, Reading, Store, add, load, open_store

__all__ = [
    "MOST_BYTES",
    "History",
    "Reading",
    "Store",
    "add",
    "decode",
    "encode",
    "is_time",
    "load",
    "name_of",
    "offered",
    "open_store",
    "record_of",
    "why_left_out",
]
