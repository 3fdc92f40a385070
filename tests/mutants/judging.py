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
    "rich.console",
)
#: Hypothesis is imported before pytest could rewrite its assertions, which matters to nobody here.
_ARGUMENTS: Final = (
    *("-q", "-x", "-p", "no:cacheprovider", "-m", "not nightly"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
#: A child has so much longer than the tests took under coverage, and so many seconds to begin with.
_FACTOR: Final = 3.0
_START_SECONDS: Final = 20.0


def import_libraries() -> None:
    """Once, before anything is forked; none of the package's own modules."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert "flowengine" not in sys.modules, "the package must be imported by the children"


def judge(clone: Path, file: str, changed: str, tests: list[str], seconds: float) -> tuple[Verdict, float]:
    """Whether a test fails with the file changed, and how long it took in s; the file is put back.

    A mutant that is not done in time is "timeout" only where the unchanged program is done in that time now;
    on a machine that is too busy even for that it is "late", which says nothing and is judged again.
    """
    verdict, took = _judge(clone, file, changed, tests, seconds)
    if verdict == "timeout" and changed != (clone / file).read_text():
        without, more = _judge(clone, file, (clone / file).read_text(), tests, seconds)
        return ("timeout" if without == "survived" else "late"), took + more
    return verdict, took


def _judge(clone: Path, file: str, changed: str, tests: list[str], seconds: float) -> tuple[Verdict, float]:
    path = clone / file
    original = path.read_bytes()
    path.write_text(changed)
    began = time.monotonic()
    try:
        child = os.fork()
        if child == 0:
            _run(clone, tests)
        verdict = _wait(child, _START_SECONDS + _FACTOR * seconds)
    finally:
        path.write_bytes(original)
    return verdict, time.monotonic() - began


def _run(clone: Path, tests: list[str]) -> None:
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
        code = int(pytest.main([*_ARGUMENTS, *tests]))
    finally:
        os._exit(0 if code in (0, 5) else 1)


def _wait(child: int, seconds: float) -> Verdict:
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            _end(child)  # what the tests started
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        if time.monotonic() > end:
            _end(child)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.01)


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
