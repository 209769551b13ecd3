"""The terminal in the README: docs/terminal.svg, recorded from the demo at 80 columns. Run from anywhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "terminal.svg"
COLUMNS = 80
SESSION = (
    "slo-gate check chat/good --policy chat/slo.yaml --quiet",
    "slo-gate check chat/regressed --policy chat/slo.yaml",
)


def recorded(line: str) -> str:
    """What a command prints on a terminal of 80 columns, with its colours, run in examples/."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
    words = [sys.executable, "-m", "gate", *line.split()[1:]]
    process = subprocess.Popen(
        words,
        cwd=ROOT / "examples",
        env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,  # the progress line
    )
    os.close(theirs)
    printed = b""
    try:
        while block := os.read(ours, 65536):
            printed += block
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    process.wait()
    return printed.decode().replace("\r\n", "\n").rstrip()


def session() -> str:
    """Every command with what it prints."""
    return "\n".join(f"$ {line}\n{recorded(line)}\n" for line in SESSION) + "$"


def picture(text: str) -> str:
    """The session as SVG. No font is loaded from elsewhere: a page shows it with the reader's own."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), soft_wrap=False)
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="slo-gate"), flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture(session()), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")
