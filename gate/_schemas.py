"""The published JSON Schemas: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load(name: str) -> dict[str, Any]:
    """A published JSON Schema by its name. Raises FileNotFoundError when the package lacks it."""
    here = Path(__file__).parent
    inside = here / "schemas" / f"{name}.schema.json"
    path = inside if inside.is_file() else here.parent / "schemas" / f"{name}.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema
