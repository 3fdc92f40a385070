"""The recorded cases and whole graphs that are shared between projects, against a floor that only rises.

They lie outside of this repository: see the fixture `shared`. Where the folder is there, finding no case in
it is a failure; where it is not, `test_recorded.py` stands in for these tests.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.workers import summary

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

#: Of the cases within the first list of op types, the part that must pass whatever the floor says.
LEAST_OF_SCOPE_01 = 0.95


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


floor = _load("floor")


@pytest.fixture(scope="module")
def results(shared: Path) -> Any:
    """Every recorded case, played once for all tests."""
    played = floor.play_cases(shared)
    assert played, f"{shared} holds no recorded case"
    return played


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print into the log of a run whose output is captured."""

    def printer(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", flush=True)

    return printer


def test_recorded_cases_do_not_fall_below_the_floor(
    results: Any, shared: Path, say: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    record_property("conformance_cases", len(results))
    counts = floor.count_passes(results, shared)
    scopes = [
        f"{s.stem}: {counts[s.stem]} of {len(floor.in_scope(results, s))}" for s in floor.scopes(shared)
    ]
    say("\n".join([summary(results), *scopes]))

    hanging = [r.id for r in results if floor.hangs(r)]
    assert not hanging, f"these hang or kill their process: {hanging}"
    assert not floor.below(counts, floor.read_floor()["cases"])


def test_cases_of_the_first_ops_pass_but_for_the_known_exceptions(results: Any, shared: Path) -> None:
    """Each failure within `scope_01.txt` is listed with a reason, and there are no more than allowed."""
    chosen = floor.in_scope(results, shared / "conformance" / "scope_01.txt")
    failing = {r.id: r.why for r in chosen if r.status != "pass"}
    known = floor.read_exceptions()
    assert {name: why for name, why in failing.items() if name not in known} == {}
    assert known.keys() <= {r.id for r in chosen}, "exceptions.json names cases that do not exist"
    assert len(failing) <= (1 - LEAST_OF_SCOPE_01) * len(chosen)


@pytest.mark.provided
def test_whole_graphs_reproduce_their_values(
    shared: Path, say: Callable[[str], None], record_property: Callable[[str, object], None]
) -> None:
    graphs = floor.play_graphs(shared)
    assert graphs, f"{shared} holds no whole graph"
    record_property("conformance_cases", len(graphs))
    good = {r.id for r in graphs if r.status == "pass"}
    say(
        f"whole graphs: {len(good)} of {len(graphs)} reproduce their values\n"
        + "".join(f"  not {r.id}: {r.why[:160]}\n" for r in graphs if r.status != "pass")
    )
    lost = sorted(set(floor.read_floor()["graphs"]) - good)
    assert not lost
