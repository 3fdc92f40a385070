"""Which tests run which lines of a room, and how long each takes: taken once for a commit.

Each set of parameters is a test of its own: an op's record is asked about the op's kernel, not all records.
A line that runs when its module is imported is every test's that runs anything of the file, whichever of them
was the first to import it.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mutants.rooms import Room

#: Of the tests of a line so many seconds are kept, in the order of `in_turn`.
KEPT_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Coverage:
    """tests: {file: {line: tests that ran it}}; seconds: {test: how long it took}."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int) -> list[str]:
        """The tests that ran a line, in turn; of a line that runs at import, all of the file."""
        lines = self.tests.get(file, {})
        names = lines.get(line, [])
        if line in lines and not names:
            names = sorted({name for each in lines.values() for name in each})
        return in_turn(names, self.seconds)


def in_turn(names: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """The fastest of each test function, then the second of each, and so on; the faster first of equals.

    So a function of a thousand quick parameters does not keep the others from their turn.
    """
    before: dict[str, int] = {}
    ranked: list[tuple[int, int, str]] = []
    for name in sorted(names, key=lambda each: (seconds.get(each, 0.0), each)):
        function = name.partition("[")[0]
        rank = before[function] = before.get(function, -1) + 1
        ranked.append((rank, len(ranked), name))
    return [name for _, _, name in sorted(ranked)]


def kept(names: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """The first of them, as far as `KEPT_SECONDS` reach, and at least one if there is one."""
    found: list[str] = []
    total = 0.0
    for name in in_turn(names, seconds):
        total += seconds.get(name, 0.0)
        if found and total > KEPT_SECONDS:
            break
        found.append(name)
    return found


def at_import(source: str) -> set[int]:
    """The lines that run when a module is imported: all that are in no function's body."""
    within: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            within.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return set(range(1, source.count("\n") + 2)) - within


class _Contexts:
    """A plug-in: says to coverage which test runs, and notes what did not pass."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)


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
    # Tests that fail without a change judge nothing.
    seconds = {name: took for name, took in plugin.seconds.items() if name not in plugin.failed}
    names = {name: number for number, name in enumerate(seconds)}
    chosen: dict[frozenset[str], list[int]] = {}
    found = measured.get_data()
    tests: dict[str, dict[int, list[int]]] = {}
    for path in found.measured_files():
        name = os.path.relpath(os.path.realpath(path), root)
        if name not in files:
            continue
        lines = tests.setdefault(name, {})
        imported = at_import((root / name).read_text())
        for line, contexts in found.contexts_by_lineno(path).items():
            passed = frozenset(each for each in contexts if each in names and line not in imported)
            if passed not in chosen:
                chosen[passed] = [names[each] for each in kept(passed, seconds)]
            lines[line] = chosen[passed]
    table = {"names": list(names), "tests": tests, "seconds": seconds, "failed": sorted(plugin.failed)}
    target.write_text(json.dumps(table))


def read(path: Path) -> Coverage:
    table = json.loads(path.read_text())
    names = table["names"]
    tests = {
        name: {int(line): [names[each] for each in numbers] for line, numbers in lines.items()}
        for name, lines in table["tests"].items()
    }
    return Coverage(tests, table["seconds"])


if __name__ == "__main__":
    from tests.mutants.rooms import ROOMS

    take(Path.cwd(), ROOMS[sys.argv[1]], Path(sys.argv[2]))
