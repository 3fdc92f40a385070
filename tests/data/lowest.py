"""Print pip constraints that pin each dependency to the lowest version that pyproject.toml allows."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """`name>=1.2` -> `name==1.2`; a requirement of another form is an error, so that none escapes."""
    pinned = []
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement)
        if match is None:
            raise SystemExit(f"{requirement!r} has no plain lower bound")
        pinned.append(f"{match[1]}=={match[2]}")
    return pinned


if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
    print("\n".join(lowest(project["dependencies"])))
