"""What a reader tells of one run, once its file is decoded: everything optional, in base units.

`settle` makes the Run of it. A reader that leaves a field out says that its file does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ..model import Counts, Doubt, Evidence, Floats, Load, Run, Summary


class Told(Struct, frozen=True, kw_only=True, eq=False):
    """One measured load point as a tool tells it. Seconds, tokens, requests."""

    format: str  # e.g. "vllm detailed"
    evidence: Evidence
    # Failed attempts that the client may have repeated inside a request, at most, for each; None: nothing
    # says whether it did. No default: a reader must know its tool.
    retries: int | None
    retries_with: str = "keep the configuration of the run beside the result"  # the remedy where it is None
    tool: str = ""  # where a file is of another tool than its reader's NAME
    # Without rows: how many of each kind, as stated; None: not stated, so that nothing can pass.
    counts: Counts | None = None
    asked: int | None = None  # requests the run was to send, where only their number was to end it
    # The remedy where it is None although every file of this format states it; "" where a file may lack it.
    asked_with: str = ""
    # With rows: what the tool counts itself. In `counted`, None for a number that it does not state.
    counted: Counted | None = None
    counted_with: str = ""  # the remedy where nothing is counted although every file of this format does
    # Total over completed requests, as stated beside rows or without. It is used instead of the rows' sum
    # where `doubts` has a TOKENS_DISAGREE.
    output_tokens: float | None = None
    # With rows: those of completed requests that ended in `duration_s`, where that is a window of the run.
    window_tokens: float | None = None
    # Output tokens of an answer, as stated over completed requests; their mean stands in for the total.
    lengths: Summary = Summary()
    duration_s: float | None = None
    load: Load | None = None
    level: str = ""  # a phase or level of a file with several: those of two names never pool
    model: str | None = None
    version: str | None = None
    hardware: str | None = None
    session: str | None = None
    interaction: str | None = None
    scenario: str | None = None
    date: str | None = None  # YYYY-MM-DD
    tokenizer: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # stated by the caller: ours -> the file's name
    prompts: int | None = None  # different prompt texts
    # How answers came. `streamed` is what the file says; what the rows show is looked at in any case.
    streamed: bool | None = None
    # The remedy where there is no first token; "" for a tool that may measure none.
    stream_with: str = ""
    has_gaps: bool = False  # whether the file holds the gaps between chunks, decoded or not
    pieces: Floats | None = None  # chunks with content each answer came in
    characters: Floats | None = None  # of the text of each answer
    tail_s: Floats | None = None  # from the last token of each answer to the end of its E2E
    sent_rate: float | None = None  # requests/s the client sent, as it says
    late_p99_s: float | None = None  # from the time a request was due to its start, in the client
    # Another count of the same rows' output tokens: (column, whose is used, whose it is).
    recount: tuple[Floats, str, str] | None = None
    # What the tool states itself.
    stated: Mapping[str, Summary] = field(default_factory=dict)  # metric -> its statistics
    method: str | Mapping[str, str] = ""  # of its percentiles, also by metric
    percentiles_with: str = ""  # the remedy where one is not stated: "name it in --percentile-metrics"
    goodput: str = ""  # what it calls goodput, as a clause: "90.0% of completed requests, by ttft 500 ms"
    invalid: str = ""  # why it calls its own run incomplete, cancelled or invalid
    hides_stream_errors: bool = False  # an error inside a 200 stream is recorded as a success
    # Why failed requests may have no record, or one like those that completed, with its remedy; "" where each
    # is there. Then how many, at most; None: any number.
    hides_failures: str = ""
    hidden_at_most: int | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)  # of metrics whose own differs in this file
    # With rows: what each failed with, "" where it did not.
    messages: Sequence[str] | NDArray[np.object_] = ()
    failures: Mapping[str, int] = field(default_factory=dict)  # without rows: the same -> how many
    doubts: tuple[Doubt, ...] = ()  # what only this format knows
    notes: tuple[str, ...] = ()
    settled: Run | None = None  # the run itself, where the file is one that slo-gate exported


class Counted(Struct, frozen=True):
    """How many requests of each kind the tool counts beside its rows; None where it does not say."""

    completed: int | None = None
    failed: int | None = None
    attempted: int | None = None
    where: str = ""  # the key, for messages
