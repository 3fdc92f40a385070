"""Graphs cut at random give what the reference interpreter gives, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, note
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning import tiers
from flowengine.testing.reference import evaluate
from flowengine.testing.strategies import GraphCase, graphs
from tests.tools.placements import RandomPlacer

TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


def same_bits(got: Any, want: Any) -> bool:
    """Equal type, shape and values; any two NaNs are the same."""
    a, b = to_array(got), to_array(want)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a) & np.isnan(b)
        return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))
    return bool(np.array_equal(a, b))


async def play(case: GraphCase, devices: int, seed: int, tier: str, late: bool = True) -> list[list[Any]]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0 if tier == "compiled" else before
    try:
        config = fe.Config(
            device_count={"CPU": devices}, compile_hot_plans=tier == "compiled", schedule_receives=late
        )
        placer = RandomPlacer(case.graph, devices, seed)
        async with fe.Session(case.graph, config=config, placer=placer) as session:
            with trio.fail_after(120):
                await session.run([], targets=case.setup)
                return [
                    list(await session.run(list(fetches), feeds, targets=case.targets))
                    for fetches, feeds in case.runs
                ]
    finally:
        tiers.HOT_RUNS = before


def check(case: GraphCase, got: Sequence[Sequence[Any]]) -> None:
    resources = ResourceManager()
    evaluate(case.graph, [], {}, case.setup, resources=resources)
    for number, ((fetches, feeds), have) in enumerate(zip(case.runs, got, strict=True)):
        want = evaluate(case.graph, fetches, feeds, case.targets, resources=resources)
        for name, a, b in zip(fetches, have, want, strict=True):
            assert same_bits(a, b), f"run {number}: {name} is {a!r}, the reference says {b!r}"


@TIERS
@given(case=graphs(), devices=st.sampled_from((2, 4)), seed=st.integers(0, 1 << 30), late=st.booleans())
def test_random_placements_give_what_the_reference_gives(
    tier: str, case: GraphCase, devices: int, seed: int, late: bool
) -> None:
    """With Recvs early or late: the values are the same, and every step ends."""
    note(f"{devices} devices, seed {seed}, Recvs {'late' if late else 'early'}")
    check(case, trio.run(play, case, devices, seed, tier, late))


@TIERS
@given(
    case=graphs(max_statements=4, max_depth=3, runs=1),
    devices=st.sampled_from((2, 4)),
    seed=st.integers(0, 1 << 30),
)
def test_deeply_nested_control_flow_is_cut_anywhere(
    tier: str, case: GraphCase, devices: int, seed: int
) -> None:
    note(f"{devices} devices, seed {seed}")
    check(case, trio.run(play, case, devices, seed, tier))
