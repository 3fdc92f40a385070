"""The attacks of `make limits` end in an error of ours or with a value; figures are for an idle machine."""

from __future__ import annotations

import tracemalloc

import pytest

import flowengine as fe
from tests.limits.attacks import ATTACKS

#: Those that end before their deadline does, whatever the machine.
_QUICK = ("constant", "filled", "padded", "arrays", "window")


@pytest.mark.parametrize("name", _QUICK)
async def test_an_attack_is_refused_before_anything_is_there(name: str) -> None:
    attack = ATTACKS[name]()
    config = fe.Config(memory_limit_bytes=20_000_000)
    tracemalloc.start()
    try:
        async with fe.Session(attack.graph, config=config) as session:
            if name == "window":
                assert await session.run(attack.fetch, attack.feeds) == 64 * 64 * 3
            else:
                with pytest.raises(fe.errors.ResourceExhaustedError):
                    await session.run(attack.fetch, attack.feeds)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


async def test_a_join_is_refused_before_it_is_made() -> None:
    attack = ATTACKS["doubled"]()
    async with fe.Session(attack.graph, config=fe.Config(memory_limit_bytes=10_000_000)) as session:
        tracemalloc.start()
        try:
            with pytest.raises(fe.errors.ResourceExhaustedError, match="memory_limit_bytes"):
                await session.run(attack.fetch, attack.feeds)
            assert tracemalloc.get_traced_memory()[1] < 12_000_000
        finally:
            tracemalloc.stop()
