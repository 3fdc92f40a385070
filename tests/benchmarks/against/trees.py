"""The trees of FlowEngine that are compared: a commit in a git worktree of its own, or a copy of a folder.

Nothing is installed. A tree is put in front of the path of the running interpreter, whose other packages
both sides share. A folder is copied, so that work in it may go on while it is measured.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from tests.benchmarks.engines import unheld_environment

ROOT: Final = Path(__file__).resolve().parents[3]
#: Where the package's modules lie; the last two are linked to from the first.
_PARTS: Final = ("flowengine", "kernels", "transport")
#: What a checkout holds beside the package, and everything whose name begins with a dot.
_LEFT_OUT: Final = frozenset({"__pycache__", "build", "dist", "docs", "site", "tests"})


class WrongTree(Exception):
    """A process has imported FlowEngine from another place than the tree that is measured."""


@dataclass(frozen=True)
class Tree:
    """FlowEngine as it lies in a folder.

    name    as the user has named it
    folder  what is put in front of the path
    digest  of all its Python files: two trees with the same digest are the same program
    """

    name: str
    folder: Path
    digest: str

    def environment(self, settings: dict[str, str] | None = None) -> dict[str, str]:
        """For a process that imports this tree."""
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return {**unheld_environment(), "PYTHONPATH": path, **(settings or {})}

    def check(self, files: Iterable[str]) -> None:
        """Raise WrongTree if one of the files that were imported lies elsewhere."""
        own = self.folder.resolve()
        foreign = [file for file in files if own not in Path(file).resolve().parents]
        if foreign:
            raise WrongTree(f"{self.name} lies in {own}, but {foreign[0]} was imported")

    def check_import(self) -> None:
        """Raise WrongTree if a process of this tree's environment finds another FlowEngine."""
        program = "import flowengine; print(flowengine.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        self.check([done.stdout.strip()])


def digest_of(folder: Path) -> str:
    """One number for the Python files of a package."""
    found = hashlib.sha256()
    for part in _PARTS:
        for path in sorted((folder / part).rglob("*.py")):
            found.update(f"{path.relative_to(folder)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _copy(folder: Path, target: Path) -> None:
    """The folder without what its top holds beside the package."""
    target.mkdir()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT:
            continue
        if path.is_dir():
            shutil.copytree(
                path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
            )
        else:
            shutil.copyfile(path, target / path.name)


@contextmanager
def tree(named: str, scratch: Path, side: str) -> Iterator[Tree]:
    """The tree that a commit or a folder names, in `scratch/side`, for as long as the context lasts."""
    target = scratch / side
    if (Path(named) / "flowengine" / "__init__.py").exists():
        _copy(Path(named), target)
        yield _ready(named, target)
        return
    commit = _git("rev-parse", "--verify", "--end-of-options", f"{named}^{{commit}}")
    _git("worktree", "add", "--detach", str(target), commit)
    try:
        yield _ready(named, target)
    finally:
        _git("worktree", "remove", "--force", str(target))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Whoever is told to end cleans up first: git would remember a worktree whose folder is gone."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ready(named: str, folder: Path) -> Tree:
    # As pip does with a wheel: no process that is timed compiles a module.
    for part in _PARTS:
        if (folder / part).is_dir():
            compileall.compile_dir(folder / part, quiet=2)
    made = Tree(named, folder, digest_of(folder))
    made.check_import()
    return made
