"""Each target for some seconds, guided by coverage: `make fuzz`.

`python -m tests.fuzz [--seconds N] [TARGET ...]` needs atheris. An input that breaks something is kept in
tests/fixtures/found/TARGET; tests/test_found.py tries it for ever after.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOUND = Path(__file__).resolve().parent.parent / "fixtures" / "found"
SLOWEST_S = 5  # of one input
MOST_MB = 1024  # of a process
ODD = (0, -1, 1, 1e308, 1e-308, 2**63, 10**30, "", "NaN", None, True, [], {}, "\x1b[31m", "\ud800", 0.5)


def main() -> int:
    """Every target in a process of its own, one after the other; 1 where one broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    said, more = parser.parse_known_args()
    if said.one:
        fuzz(said.one, more)
    from tests.fuzz.targets import TARGETS

    broken = []
    print(f"| target | inputs | a second | kept as new | seconds |\n|{'---|' * 5}")
    for name in said.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            for at, seed in enumerate(TARGETS[name].seeds()):
                (Path(folder) / f"seed-{at}").write_bytes(seed)
            (FOUND / name).mkdir(parents=True, exist_ok=True)
            words = [f"-max_total_time={said.seconds}", f"-timeout={SLOWEST_S}", f"-rss_limit_mb={MOST_MB}"]
            words += ["-print_final_stats=1", "-max_len=65536", f"-artifact_prefix={FOUND / name}/", folder]
            begun = time.monotonic()
            command = [sys.executable, "-m", "tests.fuzz", "--one", name, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not any((FOUND / name).iterdir()):
                (FOUND / name).rmdir()
        stats = dict(
            line.removeprefix("stat::").split(":", 1) for line in done.stderr.splitlines() if "stat::" in line
        )
        figures = [
            stats.get(key, "?").strip()
            for key in ("number_of_executed_units", "average_exec_per_sec", "new_units_added")
        ]
        print(f"| {name} | {' | '.join(figures)} | {time.monotonic() - begun:.0f} |", flush=True)
        if done.returncode:
            broken.append(name)
            print(done.stderr[-6000:], file=sys.stderr)
    print(f"{len(broken)} broke: {', '.join(broken)}" if broken else "nothing broke")
    return bool(broken)


def fuzz(name: str, words: list[str]) -> None:
    """One target until its time is over; never returns."""
    import atheris

    with atheris.instrument_imports(include=["gate"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        """Half of the time a change in the JSON, which bytes alone rarely leave whole."""
        draw = random.Random(seed)
        at = 1 if name.startswith("reader-") else 0
        changed = _json(data[at:], draw) if draw.random() < 0.5 else None
        if changed is None or at + len(changed) > most:
            return bytes(atheris.Mutate(data, most))
        return data[:at] + changed

    atheris.Setup([sys.argv[0], *words], target.run, custom_mutator=mutated)
    atheris.Fuzz()


def _json(data: bytes, draw: random.Random) -> bytes | None:
    """A document, or one line of many, with a value replaced, doubled or taken away; None for no JSON."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    for whole, text in ((True, data), (False, lines[at])):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        changed = json.dumps(_changed(document, draw)).encode("utf-8", "surrogatepass")
        return changed if whole else b"\n".join((*lines[:at], changed, *lines[at + 1 :]))
    return None


def _changed(value: Any, draw: random.Random) -> Any:
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.05:
        return draw.choice((*ODD, value, value))
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = draw.choice(keys)
    what = draw.random()
    if what < 0.1:
        del value[key]
    elif what < 0.2 and isinstance(value, list):
        value.append(value[key])
    elif what < 0.25 and isinstance(value, dict):
        value[f"{key}x"] = value[key]
    else:
        value[key] = _changed(value[key], draw)
    return value


if __name__ == "__main__":
    sys.exit(main())
