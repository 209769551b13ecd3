"""Exit codes and the one error type every room raises."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The documented exit codes (docs/exit-codes.md). 1 is a verdict and never a crash."""

    PASS = 0  # pass, warn, and undecided where the policy lets it through
    FAIL = 1  # a blocking objective failed
    USAGE = 2  # usage or policy error
    INPUT = 3  # result file missing, unreadable, unsupported or self-contradictory
    INCONCLUSIVE = 4  # inconclusive, and that blocks
    WARN = 5  # warn, with --fail-on warn
    BUG = 70  # a bug of ours


class GateError(Exception):
    """Something the user can act on: what happened, where, and what to do next.

    `where` is a file, a file:line or a JSON path; `hint` is a sentence with the next step.
    """

    exit: Exit = Exit.BUG

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class UsageError(GateError):
    """The command line asks for something that cannot be done."""

    exit = Exit.USAGE


class PolicyError(GateError):
    """The policy file is missing, unreadable or means nothing that can be judged."""

    exit = Exit.USAGE


class InputError(GateError):
    """A result file is missing, unreadable, unsupported or contradicts itself."""

    exit = Exit.INPUT
