"""Clones of the checkout to break: one for each room and commit, put back before it is used again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def git(*arguments: str) -> str:
    """Return git's output in the checkout."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def cloned(folder: Path, room: str, commit: str) -> Path:
    """The clone of a commit in which a room is broken, as it was committed."""
    clone = folder / f"clone-{room}-{commit[:12]}"
    if not (clone / ".git").is_dir():
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=clone, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--", "."], cwd=clone, check=True)
    subprocess.run(["git", "clean", "--quiet", "-d", "--force"], cwd=clone, check=True)
    return clone


def environment(clone: Path) -> dict[str, str]:
    """The environment of processes that run the clone's program, and of those that they start."""
    return os.environ | {"PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1"}


__all__ = ["ROOT", "cloned", "environment", "git"]
