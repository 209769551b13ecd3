"""Why something must not be judged: one kind of noun from the readers to the report.

What decides looks at `code`, `of` and `requests`; only what is printed looks at `why`.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Why(str, Enum):
    """The kinds of doubt. docs/readers.md says of each what it means and what settles it."""

    ABSENT = "absent"  # the file has no such metric
    NOT_STREAMED = "not_streamed"  # answers came in one piece, or without a first token
    ONE_PIECE = "one_piece"  # some of the answers of several tokens did
    NO_GAPS = "no_gaps"  # the tool records no gaps between chunks
    ONE_TOKEN = "one_token"  # answers of one token: there is no time between tokens
    NO_TOKENS = "no_tokens"  # no sign that a token was made
    CUT_ROWS = "cut_rows"  # answers that stop short of the tokens they are credited with
    LOST_ROWS = "lost_rows"  # requests that were asked for and are in no row
    COUNTS_UNKNOWN = "counts_unknown"  # how many were attempted or failed is not stated
    FAILURES_HIDDEN = "failures_hidden"  # failed requests may look completed, or be missing
    RETRIED = "retried"  # failed attempts inside completed requests
    RETRIES_UNKNOWN = "retries_unknown"  # or there may be
    PARTIAL = "partial"  # statistics with the times of failed requests in them
    POPULATION = "population"  # statistics over other requests than those that completed
    ZERO = "zero"  # a statistic of exactly 0 is no measurement
    TOKENS_DISAGREE = "tokens_disagree"  # two counts of the same tokens
    DEFINITION = "definition"  # the tool measures something else under this name
    SEVERAL_LOADS = "several_loads"  # loads that nothing tells apart
    TOOL_SAYS_INVALID = "tool_says_invalid"  # the tool's own word on its run
    UNIT = "unit"  # values that cannot be in the unit they are declared in
    EASIER_LOAD = "easier_load"  # the server saw less than the load that is named
    WAITED = "waited"  # requests waited in the client, outside of every latency
    REPEATED_ROWS = "repeated_rows"  # rows or ids that stand twice
    OTHER_WORKLOAD = "other_workload"  # another one than the policy states
    UNREADABLE = "unreadable"  # the measurement is refused as a whole


class Doubt(Struct, frozen=True):
    """Why `of` must not be judged, in one sentence with its remedy.

    `of` holds metrics, `goodput`, `error_rate`, or `attempted`: then failures may be missing, so that a FAIL
    stands and a PASS does not. `requests` is how many of the requests it is about: then both readings, with
    and without them, must give the same verdict. None: all of them.
    """

    code: Why
    of: tuple[str, ...]
    why: str
    requests: int | None = None
