"""A step's values do not depend on how warm its plan is, or on what ran before in the process.

The whole graphs of the shared material run cold (interpreted), hot from the first step on, on their way from
cold to hot, and hot once more after another graph: the same bits each time, training included. Those of more
than 3 MB run in the last two ways at night only.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime import step
from flowengine.runtime.planning import tiers
from tests.conftest import shared_folder
from tests.effort import IS_NIGHTLY
from tests.tools.recorded import find_cases, open_case, size_of

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

#: Enough for a plan to become hot by what its steps have taken, and to run a few times then.
STEPS = tiers.HOT_RUNS + (4 if IS_NIGHTLY else 2)
#: Enough where a plan is hot from the first.
HOT_STEPS = 3
#: Bytes of a case that is not among the largest.
BYTES_MAX = 3_000_000


def _addresses() -> list[str]:
    folder = shared_folder()
    if folder is None:
        return []
    return [
        address
        for address in find_cases(folder / "zoo" / "open")
        if open_case(address).meta.get("timing") is not None
    ]


def _play(address: str, steps: int = STEPS, **settings: Any) -> list[list[Any]]:
    """Return the fetched values of each step of the run that the case names as worth timing, in order."""
    case = open_case(address)
    timing = case.meta["timing"]

    async def play() -> list[list[Any]]:
        async with fe.Session(fe.Graph.from_graph_def(case.graph), config=fe.Config(**settings)) as session:
            for index in timing["setup"]:
                run = case.runs[index]
                await session.run(list(run.fetches), run.feeds, targets=list(run.targets))
            run = case.runs[timing["run"]]
            return [
                list(await session.run(list(run.fetches), run.feeds, targets=list(run.targets)))
                for _ in range(steps)
            ]

    return trio.run(play)


def _bits(values: list[list[Any]]) -> list[list[Any]]:
    arrays = [[np.asarray(value) for value in step] for step in values]
    return [
        [(a.dtype, a.shape, a.tolist() if a.dtype == object else a.tobytes()) for a in step]
        for step in arrays
    ]


@pytest.mark.parametrize("address", _addresses(), ids=lambda address: Path(address).name)
def test_cold_and_hot_steps_give_the_same_bits(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fresh() -> None:
        """Begin with the files as they were: some graphs write some."""
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(tmp_path / "case", ignore_errors=True)
        shutil.copytree(address, tmp_path / "case", copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(tmp_path / "case"):
            os.chmod(folder, 0o700)  # copied from a folder that nobody may write
        monkeypatch.chdir(tmp_path / "case")

    # A plan is hot when the step is over that made it so, not when a thread has compiled it.
    monkeypatch.setattr(step, "INLINE_NODES", 1 << 30)
    fresh()
    steps = STEPS if IS_NIGHTLY or size_of(address) <= BYTES_MAX else HOT_STEPS
    cold = _bits(_play(address, steps, compile_hot_plans=False))
    with monkeypatch.context() as patch:
        patch.setattr(tiers, "HOT_RUNS", 0)
        fresh()
        assert _bits(_play(address, HOT_STEPS)) == cold[:HOT_STEPS]
    if steps < STEPS:
        return
    fresh()
    assert _bits(_play(address)) == cold
    monkeypatch.undo()
    other = next(each for each in _addresses() if each != address)
    fresh_other = tmp_path / "other"
    shutil.copytree(other, fresh_other)
    monkeypatch.chdir(fresh_other)
    _play(other)
    monkeypatch.setattr(step, "INLINE_NODES", 1 << 30)
    fresh()
    assert _bits(_play(address)) == cold


def test_there_are_graphs_to_compare(shared: Path) -> None:
    assert len(_addresses()) >= 20
