"""Which tests run which lines of a room, and how long each takes: taken once for a commit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.rooms import Room


@dataclass(frozen=True)
class Coverage:
    """tests: {file: {line: tests that ran it}}; seconds: {test: how long it took}, parameters joined."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int) -> list[str]:
        """The tests that ran a line, the fastest first; of a line that runs at import, all of the file."""
        lines = self.tests.get(file, {})
        names = lines.get(line, [])
        if line in lines and not names:
            names = sorted({name for each in lines.values() for name in each})
        return sorted(names, key=lambda name: (self.seconds.get(name, 0.0), name))


def function_of(nodeid: str) -> str:
    """A test without its parameters."""
    return nodeid.partition("[")[0]


class _Contexts:
    """A plug-in: says to coverage which test runs, and notes what did not pass."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.coverage.switch_context(function_of(item.nodeid))
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = function_of(report.nodeid)
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.failed:
            self.failed.add(name)


def take(root: Path, room: Room, target: Path) -> None:
    """Run the room's tests under coverage, here in this process, and write what they run."""
    import coverage

    data = target.with_suffix(".coverage")
    files = set(room.files(root))
    # Only the room is traced: the rest of the program runs as fast as without.
    measured = coverage.Coverage(
        data_file=str(data), branch=False, include=[str(root / name) for name in files], config_file=False
    )
    plugin = _Contexts(measured)
    measured.start()
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not nightly", *room.tests], plugins=[plugin])
    measured.stop()
    measured.save()
    found = measured.get_data()
    tests: dict[str, dict[int, list[str]]] = {}
    for path in found.measured_files():
        name = os.path.relpath(os.path.realpath(path), root)
        if name not in files:
            continue
        lines = tests.setdefault(name, {})
        for line, contexts in found.contexts_by_lineno(path).items():
            chosen = sorted({each for each in contexts if each and each not in plugin.failed})
            lines[line] = sorted({*lines.get(line, []), *chosen})
    # Tests that fail without a change judge nothing.
    seconds = {name: took for name, took in plugin.seconds.items() if name not in plugin.failed}
    target.write_text(json.dumps({"tests": tests, "seconds": seconds, "failed": sorted(plugin.failed)}))


def read(path: Path) -> Coverage:
    table = json.loads(path.read_text())
    tests = {
        name: {int(line): names for line, names in lines.items()} for name, lines in table["tests"].items()
    }
    return Coverage(tests, table["seconds"])


if __name__ == "__main__":
    from tests.mutants.rooms import ROOMS

    take(Path.cwd(), ROOMS[sys.argv[1]], Path(sys.argv[2]))
