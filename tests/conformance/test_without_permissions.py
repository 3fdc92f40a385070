"""Permissions save time and nothing else: without them graphs give the values that they give with them.

Every op keeps its duties and loses what `ir.traits` calls permissions. Then plans are made with more care,
fewer nodes are folded, passed over, dropped and fused, and nothing that a user sees may be different.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.ir.opdef import OpDef
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops import internal
from flowengine.ops.load import registry
from flowengine.runtime.planning import tiers
from flowengine.testing.strategies import GraphCase, graphs
from tests.effort import IS_NIGHTLY
from tests.tools.recorded import find_cases
from tests.tools.replay import replay_case

GRAPHS = 5_000 if IS_NIGHTLY else 15
#: Recorded cases that are drawn where not all of them are played.
CASES = 30
HERE = Path(__file__).parent / "recorded"


@contextmanager
def without_permissions() -> Iterator[None]:
    """Every op of this package with its duties alone, and whether it has a derivative: no plan asks that."""
    ops = [registry()[name] for name in registry()]
    ops += [op for op in vars(internal).values() if isinstance(op, OpDef)]
    before = [(op, op.traits, op.conditional) for op in ops]
    try:
        for op, traits, _ in before:
            _set(
                op,
                {kind: trait for kind, trait in traits.items() if trait.IS_DUTY or kind is NotDifferentiable},
                (),
            )
        yield
    finally:
        for op, traits, conditional in before:
            _set(op, traits, conditional)


def _set(op: OpDef, traits: Mapping[Any, Any], conditional: tuple[Any, ...]) -> None:
    object.__setattr__(op, "traits", traits)
    object.__setattr__(op, "conditional", conditional)


@pytest.fixture
def _compiled_from_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)


async def play(case: GraphCase, *, compiled: bool) -> list[Any]:
    async with fe.Session(case.graph, config=fe.Config(compile_hot_plans=compiled)) as session:
        await session.run([], targets=case.setup)
        results: list[Any] = []
        for fetches, feeds in case.runs:
            try:
                got = list(await session.run(list(fetches), feeds, targets=case.targets))
            except fe.errors.OpError as error:
                results.append(type(error).__name__)
                continue
            arrays = [to_array(value) for value in got]
            results.append([(a.dtype, a.shape, a.tobytes()) for a in arrays])
        return results


@pytest.mark.usefixtures("_compiled_from_the_first_run")
@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=GRAPHS)
@given(case=graphs())
def test_random_graphs_give_the_same_bits_without_permissions(compiled: bool, case: GraphCase) -> None:
    allowed = trio.run(lambda: play(case, compiled=compiled))
    with without_permissions():
        assert trio.run(lambda: play(case, compiled=compiled)) == allowed


@pytest.mark.parametrize("address", sorted(find_cases(HERE)), ids=lambda address: Path(address).name)
def test_recorded_cases_of_this_repository_pass_without_permissions(address: str) -> None:
    with without_permissions():
        result = replay_case(address)
    assert result.status == "pass", f"run {result.run} {result.fetch or ''}: {result.why}"


@pytest.mark.slow
@pytest.mark.conformance
def test_recorded_cases_pass_without_permissions(shared: Path) -> None:
    addresses = sorted(find_cases(shared / "conformance" / "open"))
    if not IS_NIGHTLY:
        addresses = random.Random(20261123).sample(addresses, CASES)
    fallen: dict[str, str] = {}
    for address in addresses:
        if replay_case(address).status != "pass":
            continue
        with without_permissions():
            result = replay_case(address)
        if result.status != "pass":
            fallen[result.id] = f"run {result.run} {result.fetch or ''}: {result.why}"
    assert not fallen


def test_without_permissions_duties_stay() -> None:
    assert len(registry()["Conv2D"].traits) > 1
    with without_permissions():
        assert not registry()["Conv2D"].traits
        assert registry()["Assign"].traits
    assert len(registry()["Conv2D"].traits) > 1
