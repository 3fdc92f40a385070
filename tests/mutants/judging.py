"""One mutant after another in a clone: children are forked from an interpreter that has the libraries."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final, Literal

import pytest

Verdict = Literal["killed", "survived", "timeout", "late", "uncovered", "same", "excused"]

#: What every test imports and no mutant changes.
_LIBRARIES: Final = (
    "numpy",
    "scipy.sparse",
    "scipy.linalg",
    "trio.testing",
    "hypothesis.strategies",
    "google.protobuf.descriptor_pb2",
    "ml_dtypes",
    "msgpack",
    "click",
    "rich.live",
)
#: Hypothesis is imported before pytest could rewrite its assertions, which matters to nobody here.
_ARGUMENTS: Final = (
    *("-q", "-x", "-p", "no:cacheprovider", "-m", "not nightly"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
#: A test has so much longer than the longest took under coverage, and so many seconds to begin with.
_FACTOR: Final = 3.0
_START_SECONDS: Final = 20.0


def import_libraries() -> None:
    """Once, before anything is forked; none of the package's own modules."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert "flowengine" not in sys.modules, "the package must be imported by the children"


class _Progress:
    """A plug-in: takes the tests that are asked for, in their order, and says into a pipe which begins.

    Thousands of names as arguments would take pytest longer to find than to run.
    """

    def __init__(self, tests: list[str], descriptor: int) -> None:
        self._places = {name: place for place, name in enumerate(tests)}
        self._descriptor = descriptor

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = [(place, item) for item in items if (place := self._place(item.nodeid)) is not None]
        items[:] = [item for _, item in sorted(found, key=lambda each: each[0])]

    def _place(self, nodeid: str) -> int | None:
        """Return the place of a test in the list, found by its name, its function or its file; or None."""
        names = (nodeid, nodeid.partition("[")[0], nodeid.partition("::")[0])
        return next((self._places[name] for name in names if name in self._places), None)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.write(self._descriptor, nodeid.encode() + b"\n")


def judge(clone: Path, file: str, changed: str, tests: list[str], longest: float) -> tuple[Verdict, float]:
    """Whether a test fails with the file changed, and how long it took in s; the file is put back.

    tests     names of tests, with their parameters or for all of them, or of whole files
    longest   what the longest of the tests took, in s

    "killed" and "timeout" are said only where the unchanged program passes, right after it and in the same
    time, the test that failed or did not end; where it does not, as on a machine that is too busy, it is
    "late", which says nothing and is judged again.
    """
    verdict, took, last = _judge(clone, file, changed, tests, longest)
    original = (clone / file).read_text()
    if verdict != "survived" and changed != original:
        # Where no test began, it was their collection that failed.
        options, again = ((), [last]) if last else (("--collect-only",), tests)
        without, more, _ = _judge(clone, file, original, again, longest, options)
        return (verdict if without == "survived" else "late"), took + more
    return verdict, took


def _judge(
    clone: Path, file: str, changed: str, tests: list[str], longest: float, options: tuple[str, ...] = ()
) -> tuple[Verdict, float, str]:
    """The verdict, the time in s, and the test that began last."""
    path = clone / file
    original = path.read_bytes()
    path.write_text(changed)
    began = time.monotonic()
    reading, writing = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _run(clone, tests, writing, options)
        os.close(writing)
        os.set_blocking(reading, False)
        verdict, last = _wait(child, reading, _START_SECONDS + _FACTOR * longest)
    finally:
        os.close(reading)
        path.write_bytes(original)
    return verdict, time.monotonic() - began, last


def _run(clone: Path, tests: list[str], progress: int, options: tuple[str, ...]) -> None:
    """In the child: run the tests to the first failure and leave with 1, or with 0."""
    code = 1
    try:
        os.setsid()
        os.chdir(clone)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        # A file that was changed within the same second would be taken from its compiled form.
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(clone))
        # Processes that a test starts run the changed program, too.
        os.environ |= {"PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1"}
        files = dict.fromkeys(name.partition("::")[0] for name in tests)
        code = int(pytest.main([*_ARGUMENTS, *options, *files], plugins=[_Progress(tests, progress)]))
    finally:
        os._exit(0 if code in (0, 5) else 1)


def _wait(child: int, progress: int, seconds: float) -> tuple[Verdict, str]:
    """How the child ends, where no test takes so many seconds, and the test that began last."""
    end = time.monotonic() + seconds
    told = b""
    while True:
        # Asked before the pipe is read: what a child said that has ended is all there.
        found, status = os.waitpid(child, os.WNOHANG)
        while more := _said(progress):
            told = (told + more)[-(1 << 16) :]
            end = time.monotonic() + seconds
        last = told.split(b"\n")[-2].decode() if b"\n" in told else ""
        if found:
            _end(child)  # what the tests started
            return ("survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"), last
        if time.monotonic() > end:
            _end(child)
            os.waitpid(child, 0)
            return "timeout", last
        time.sleep(0.01)


def _said(progress: int) -> bytes:
    """Return the bytes that wait in the pipe; empty if there are none."""
    with contextlib.suppress(BlockingIOError):
        return os.read(progress, 1 << 16)
    return b""


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
