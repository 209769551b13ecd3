"""What a result file does not know: the commit, the prompts, the GPUs. Unknown is null."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from typing import Any

from ..disk import opened
from ..errors import UsageError

_PATIENCE_S = 20.0


def gather(dataset: str | None) -> dict[str, Any]:
    """Facts of the session, for every sidecar. Raises UsageError for a data set that cannot be read."""
    return {"git": _git(), "dataset": _dataset(dataset) if dataset else None, "gpus": _gpus()}


def _git() -> dict[str, Any] | None:
    sha = _output("git", "rev-parse", "HEAD")
    if not sha:
        return None
    changed = _output("git", "status", "--porcelain", "--untracked-files=no")
    return {"sha": sha, "changed": bool(changed)}


def _dataset(name: str) -> dict[str, Any]:
    digest = hashlib.sha256()
    try:
        with opened(name) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        hint = "name the file of prompts that the command reads"
        raise UsageError(
            f"the data set cannot be read: {error.strerror or error}", f"--dataset {name}", hint
        ) from None
    return {"path": name, "sha256": digest.hexdigest()}


def _gpus() -> list[dict[str, str]] | None:
    """Of this machine, which is the server's only where the client runs beside it."""
    text = _output("nvidia-smi", "--query-gpu=name,uuid", "--format=csv,noheader")
    if not text:
        return None
    rows = [line.rpartition(",") for line in text.splitlines()]
    return [{"name": name.strip(), "uuid": uuid.strip()} for name, _, uuid in rows]


def _output(*command: str) -> str:
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
