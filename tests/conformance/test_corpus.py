"""The recorded cases and whole graphs that are shared between projects, against a floor that only rises.

They lie outside of this repository: `FLOWENGINE_SHARED` names the folder. Where it is set, finding no
case there is a failure; where it is not, the tests are skipped and `test_recorded.py` stands in for them.

`floor.json` says how many cases of each suite pass at least, and which whole graphs. After an
improvement `python tests/conformance/raise_floor.py` writes the new floor. `FLOWENGINE_CORPUS=sample`
plays every fifth case only, and then holds that the failing ones are not more than the floor allows.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flowengine.testing.recorded import find_cases, open_case
from flowengine.testing.replay import Result
from flowengine.testing.workers import replay_all, summary

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

HERE = Path(__file__).parent
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(part: str) -> Path:
    """A folder of the shared material, or skip the test that asks for it."""
    named = os.environ.get("FLOWENGINE_SHARED")
    root = Path(named) if named else HERE.parents[2] / "shared"
    if not named and not root.is_dir():
        pytest.skip("the shared conformance cases are not here: FLOWENGINE_SHARED does not name their folder")
    return root / part


def floor() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / "floor.json").read_text(encoding="utf-8"))
    return data


def known_exceptions() -> dict[str, str]:
    """{case id: why it cannot pass} from `exceptions.json`."""
    data: dict[str, str] = json.loads((HERE / "exceptions.json").read_text(encoding="utf-8"))
    return data


def count_passes(results: Sequence[Result]) -> Counter[str]:
    """Passing cases by suite, and within each list of op types that lies beside the cases."""
    counts = Counter(r.suite for r in results if r.status == "pass")
    for path in sorted(shared("conformance").glob("scope_*.txt")):
        scope = set(path.read_text(encoding="utf-8").split())
        counts[path.stem] = sum(
            r.status == "pass" and r.suite != "concurrent" and scope >= set(r.ops) for r in results
        )
    return counts


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}", flush=True)


def test_recorded_cases_pass_at_least_as_many_as_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = list(find_cases(shared("conformance") / "open"))
    assert addresses, "no recorded case was found although the shared material should be here"
    step = 5 if os.environ.get("FLOWENGINE_CORPUS") == "sample" else 1
    results = replay_all(addresses[::step], jobs=JOBS)
    passes = count_passes(results)
    say(
        capsys,
        f"{summary(results)}\n"
        + "".join(f"{name}: {n} pass\n" for name, n in sorted(passes.items()) if name.startswith("scope"))
        + f"conformance: {len(results)} cases ran, {sum(r.status == 'pass' for r in results)} pass",
    )

    stalled = [r.id for r in results if "stalled" in r.why or "Stall" in r.why]
    assert not stalled, f"cases that hang: {stalled}"
    if step == 1:
        below = {name: (passes[name], n) for name, n in floor()["passes"].items() if passes[name] < n}
        assert not below, f"fewer cases pass than before, as (now, floor): {below}"
    else:
        failing = {r.id for r in results if r.status != "pass"}
        new = sorted(failing - set(floor()["failing"]))
        assert not new, f"cases that passed before: {new}"


def test_known_exceptions_still_exist() -> None:
    ids = {open_case(a).id for a in find_cases(shared("conformance") / "open")}
    unknown = sorted(set(known_exceptions()) - ids)
    assert not unknown, f"exceptions.json names cases that do not exist: {unknown}"


def test_whole_graphs_reproduce_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = list(find_cases(shared("zoo") / "open"))
    assert addresses, "no whole graph was found although the shared material should be here"
    results = replay_all(addresses, jobs=JOBS, timeout_seconds=120)
    good = [r.id for r in results if r.status == "pass"]
    say(
        capsys,
        f"whole graphs: {len(results)} ran, {len(good)} reproduce their values\n"
        + "".join(f"  not {r.id}: {r.why[:200]}\n" for r in results if r.status != "pass"),
    )
    lost = sorted(set(floor()["zoo"]) - set(good))
    assert not lost, f"whole graphs that reproduced their values before: {lost}"
