"""What `slo-gate init` needs: answers in, a commented policy out."""

from __future__ import annotations

from ._measured import lengths, measured
from ._plan import Lengths
from ._policy_file import INTERACTIONS, Answers, Measured, policy_text

__all__ = ["INTERACTIONS", "Answers", "Lengths", "Measured", "lengths", "measured", "policy_text"]
