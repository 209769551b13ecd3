"""What the vLLM reader's modules share: hints, the signs of a response in one piece, array lengths."""

from __future__ import annotations

from collections.abc import Mapping

from .._source import Doc

WHOLE = "run the benchmark again, or use the file as the tool wrote it"
DETAIL = "save per-request rows with --save-result --save-detailed"

# A response of several tokens came in one piece when it has next to no time after its first token,
# as a share of E2E (a long prefill with few tokens looks so too) and per token (no server is faster).
AT_ONCE = 0.05
AT_ONCE_TPOT_S = 1e-3
NOT_STREAMED = (
    "responses came in one piece (TTFT is about E2E): not streamed, or all tokens in the first chunk; "
    "run with streaming on"
)


def same_length(doc: Doc, lengths: Mapping[str, int]) -> None:
    """Raises InputError, naming each array, when lengths differ."""
    if len(set(lengths.values())) > 1:
        named = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise doc.source.fail(f"contradicts itself: arrays of different length ({named})", doc.at, WHOLE)
