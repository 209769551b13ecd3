"""The lead lines alone, and the exit code: for a termination log, a chat message, a deploy's record."""

from __future__ import annotations

from ..model import AnyReport, ErrorReport
from . import format as f

BYTES = 4096  # what Kubernetes keeps of a termination log


def emit(report: AnyReport) -> str:
    """Decision, next action and change against the baseline where there are any, then the exit code."""
    if isinstance(report, ErrorReport):
        leads = {"": report.headline, "Next: ": report.hint}
    else:
        leads = {"": report.headline, "Next: ": report.next_action, "Change: ": report.change}
    lines = [_cut(f"{name}{f.plain(lead)}") for name, lead in leads.items() if lead]
    return "".join(f"{line}\n" for line in [*lines, f"exit code {report.exit_code}"])


def _cut(line: str) -> str:
    """A line so short that all of them fit; no character is left half."""
    most = BYTES // 4
    data = line.encode("utf-8", "replace")
    return line if len(data) <= most else data[: most - 4].decode("utf-8", "ignore") + " ..."
