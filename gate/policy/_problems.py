"""What is wrong with a policy, collected: one error names every line that needs a hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct, field

from ..errors import PolicyError

_SHOWN = 20  # more than a screenful helps nobody
_MOST = 100  # a file with more is no policy: it is not read to its end
_OPTIONS = 100  # words that one word is compared with
_LONGEST = 400  # characters of one message
# What people write who come from another tool; edit distance alone would not find these.
_SYNONYMS = {
    "latency": "e2e",
    "e2el": "e2e",
    "request_latency": "e2e",
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "median": "p50",
    "avg": "mean",
    "average": "mean",
    "error": "block",
    "fail": "block",
    "blocking": "block",
    "warning": "warn",
    "rate": "request_rate",
    "qps": "request_rate",
}


class Problem(Struct, frozen=True):
    """One sentence about one line."""

    line: int
    message: str
    hint: str


class Problems(Struct):
    """Problems of one policy file, raised together as one PolicyError."""

    path: str
    found: list[Problem] = field(default_factory=list)
    context: str = ""  # set while a profile is checked: "with profile pr: "
    known: set[tuple[int, str, str]] = field(default_factory=set)

    def add(self, line: int, message: str, hint: str = "") -> None:
        """Note a problem at a line (from 1; 0 for the file as a whole). Raises PolicyError for too many."""
        message, hint = _clean(message), _clean(hint)
        # What is wrong in the base is wrong again in every profile: say it once.
        if (line, message, hint) in self.known:
            return
        self.known.add((line, message, hint))
        self.found.append(Problem(line, self.context + message, hint))
        if len(self.found) > _MOST:
            self.check()

    def check(self) -> None:
        """Raise PolicyError when anything was noted: the first where it stands, then one a line."""
        if not self.found:
            return
        problems = sorted(self.found, key=lambda p: p.line)
        first = problems[0]
        if len(problems) == 1:
            raise PolicyError(first.message, self._where(first), first.hint)
        lines = [_sentence(first)]
        lines += [f"{self._where(p)}: {_sentence(p)}" for p in problems[1:_SHOWN]]
        if len(problems) > _SHOWN:
            rest = f"{len(problems) - _SHOWN} more" if len(problems) <= _MOST else "more"
            lines.append(f"{self.path}: and {rest}")
        number = f"{_MOST} problems or more" if len(problems) > _MOST else f"{len(problems)} problems"
        hint = f"{number} in one file; `slo-gate schema policy` describes every key"
        raise PolicyError("\n".join(lines), self._where(first), hint)

    def _where(self, problem: Problem) -> str:
        return f"{self.path}:{problem.line}" if problem.line else self.path


def _clean(text: str) -> str:
    """A long or unprintable value must not break the one-line message that quotes it."""
    text = "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])
    return text + "..." if len(text) == _LONGEST else text


def _sentence(problem: Problem) -> str:
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message


def suggest(word: str, options: Iterable[str]) -> str:
    """A hint for a word nobody knows: the near match, else all the words there are."""
    from difflib import get_close_matches  # only when something is wrong: costs start-up time

    options = list(islice(options, _OPTIONS))
    lower = word[:60].strip().lower()
    known = _SYNONYMS.get(lower)
    near = [known] if known in options else get_close_matches(lower, options, n=1, cutoff=0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"write one of {', '.join(options)}" if options else ""
