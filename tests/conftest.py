"""Settings shared by all tests: Hypothesis profiles, where recorded material lies, the closing summary.

`FLOWENGINE_TEST_PROFILE` chooses how hard the suite tries: `ci` (default; the same examples every time) or
`nightly` (random examples, many of them, and the tests marked so).

A test over recorded cases calls `record_property("conformance_cases", number_that_ran)`; the sum is printed
after the run as one line, so that a run in which nothing was compared cannot be mistaken for a good one. What
was not run for want of something is counted there, and tests beside TensorFlow are listed.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests import provided
from tests.effort import PROFILE

ROOT = Path(__file__).resolve().parent.parent

_TENSORFLOW: Final = "FLOWENGINE_TENSORFLOW_PYTHON"
_NIGHTLY: Final = "runs with FLOWENGINE_TEST_PROFILE=nightly"
#: {words in the reason of a skip: how the summary says it}
_NOT_RUN: Final = {
    _TENSORFLOW: f"without {_TENSORFLOW}",
    "set FLOWENGINE_SHARED": "without FLOWENGINE_SHARED",
    _NIGHTLY: "but by make nightly",
}

# Too slow a machine is not a property of the code, so no profile has a deadline.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    deadline=None,
    print_blob=True,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(PROFILE)


def shared_folder() -> Path | None:
    """The folder of recorded material: `FLOWENGINE_SHARED`, or `shared` beside the checkout, or None."""
    named = os.environ.get("FLOWENGINE_SHARED")
    if named:
        return Path(named)
    beside = ROOT.parent / "shared"
    return beside if (beside / "conformance").is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded material; a test that needs it is skipped where there is none."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("recorded material is not here: set FLOWENGINE_SHARED to its folder")
    return folder


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # Beside each other the files that take long begin, or one would end long after the rest.
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
    if PROFILE == "nightly":
        return
    skip = pytest.mark.skip(reason=f"takes minutes: {_NIGHTLY}")
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(skip)


def _keep_from_the_collector() -> None:
    """The collector looks no more at what is there now: 27,000 tests, and what their files made.

    Else it goes through a million objects again and again, in some tests for nine tenths of their time.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    _keep_from_the_collector()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        _keep_from_the_collector()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if not provided.is_watched(item):
        return (yield)
    with provided.watched():
        return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = 0
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "conformance_cases" and getattr(report, "when", "") == "call":
                    ran += int(value)
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if report.nodeid]
    for mark, what in _NOT_RUN.items():
        names = [report.nodeid.partition("[")[0] for report in skipped if mark in str(report.longrepr)]
        if names:
            number = f"{len(names)} tests" if len(names) > 1 else "1 test"
            terminalreporter.write_line(f"not run {what}: {number}")
            if mark == _TENSORFLOW:
                for name, count in sorted(Counter(names).items()):
                    terminalreporter.write_line(f"  {name} ({count})")
    terminalreporter.write_line(f"conformance cases that ran: {ran}")
