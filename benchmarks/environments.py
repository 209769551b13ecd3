"""Environments of other programs, each of its own below .cache, made where they are not there."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "rivals"


def python_of(package: str) -> str:
    """The interpreter that has a package, as pip names it. Raises RuntimeError with pip's reason."""
    home = CACHE / package
    python = home / "bin" / "python"
    if not (home / ".installed").is_file():
        venv.create(home, with_pip=True, clear=True)
        words = [str(python), "-m", "pip", "install", "--quiet", package]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise RuntimeError((errors or ["pip failed"])[-1].removeprefix("ERROR: "))
        (home / ".installed").touch()
    return str(python)
