"""Repeat a benchmark command until the verdict is certain: the looks are fixed in advance (STATS section 9E).

A session is a folder: a result folder a run with a sidecar beside each result, logs, and a journal that
says what counts. Whoever dies at any moment goes on from there.
"""

from __future__ import annotations

from ._attempt import Made
from ._facts import gather
from ._journal import NAME as JOURNAL
from ._journal import Journal
from ._plan import (
    BASELINE,
    CANDIDATE,
    LOOKS,
    PLACEHOLDERS,
    Budget,
    Plan,
    Point,
    Side,
    Slot,
    Spent,
    check_command,
    fill,
    groups,
    look_due,
    points,
    redacted,
    used,
)
from ._results import How
from ._session import Event, Judge, Session
from ._settle import UNTIL, hopeless, settled
from ._state import past, terms
from ._witness import Seen, WitnessError, compare, notes, scrape

__all__ = [
    "BASELINE",
    "CANDIDATE",
    "JOURNAL",
    "LOOKS",
    "PLACEHOLDERS",
    "UNTIL",
    "Budget",
    "Event",
    "How",
    "Journal",
    "Judge",
    "Made",
    "Plan",
    "Point",
    "Seen",
    "Session",
    "Side",
    "Slot",
    "Spent",
    "WitnessError",
    "check_command",
    "compare",
    "fill",
    "gather",
    "groups",
    "hopeless",
    "look_due",
    "notes",
    "past",
    "points",
    "redacted",
    "scrape",
    "settled",
    "terms",
    "used",
]
