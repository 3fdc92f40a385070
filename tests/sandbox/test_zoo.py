"""Whole graphs in a box, those that train and those that read files among them: the recorded values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

import flowengine as fe
from flowengine.sandbox import confine
from tests.tools.recorded import find_cases
from tests.tools.replay import ReplayOutcome, judge, play, prepared_case

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.conformance,
    pytest.mark.skipif(bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"),
]


def _boxed(graph: fe.Graph) -> fe.Session:
    config = fe.Config.sandbox(
        memory_bytes=2 << 30,
        seconds=120,
        write=os.getcwd(),
        write_bytes=1 << 30,
        max_steps=64,
        cores=2,
        spare=False,
    )
    return fe.Session(fe.GraphBytes(graph.to_graph_def().SerializeToString()), config=config)


async def _wrong(addresses: list[str]) -> dict[str, str]:
    wrong = {}
    for address in addresses:
        with prepared_case(address) as case:
            outcomes = [ReplayOutcome((), "Stall", "did not finish within 120 s") for _ in case.runs]
            with trio.move_on_after(120):
                await play(case, outcomes, _boxed)
            result = judge(case, outcomes)
        if result.status != "pass":
            wrong[result.id] = result.why
    return wrong


async def test_the_zoo_in_a_box(shared: Path) -> None:
    cases = list(find_cases(shared / "zoo" / "open"))
    assert len(cases) > 20
    assert await _wrong(cases) == {}
