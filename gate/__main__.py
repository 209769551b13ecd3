"""`python -m gate` and the `slo-gate` script: an import that fails is told apart from a verdict."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit with its documented code."""
    gc.disable()  # a process that lives for a second only pays for collecting
    try:
        from .cli import run
    except Exception as error:  # a broken install must not exit 1, which is a verdict
        sys.stderr.write(f"slo-gate: cannot start: {error}\nhint: reinstall slo-gate and its dependencies\n")
        sys.exit(70)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
