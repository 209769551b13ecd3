"""The memory of a gate: what each session measured, in stores that are only ever appended to."""

from .lines import MOST_BYTES, decode, encode, name_of
from .records import record_of, why_left_out
from .stores import History, Store, add, load, open_store

__all__ = [
    "MOST_BYTES",
    "History",
    "Store",
    "add",
    "decode",
    "encode",
    "load",
    "name_of",
    "open_store",
    "record_of",
    "why_left_out",
]
