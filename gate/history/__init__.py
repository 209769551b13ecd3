"""The memory of a gate: what each session measured, in stores that are only ever appended to."""

from .baseline import offered
from .git import git_lines, tracked, without_secrets
from .lines import MOST_BYTES, decode, encode, is_time, name_of
from .records import record_of, why_left_out
from .stores import History, Store, add, load, open_store

__all__ = [
    "MOST_BYTES",
    "History",
    "Store",
    "add",
    "decode",
    "encode",
    "git_lines",
    "is_time",
    "load",
    "name_of",
    "offered",
    "open_store",
    "record_of",
    "tracked",
    "why_left_out",
    "without_secrets",
]
