"""The holders of memory at the peak: a ledger's log against a list of what is alive."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.devices.allocation import Ledger

#: (what happens, the number of the object, bytes)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["hold", "book", "free", "change"]), st.integers(0, 3), st.integers(1, 50)),
    max_size=30,
)


class Owner:
    """An object that can be referred to weakly."""


@given(changes=CHANGES)
def test_the_log_tells_what_was_alive_at_the_first_moment_of_the_peak(changes: list[Any]) -> None:
    ledger = Ledger()
    ledger.log = []
    owners: dict[int, Owner] = {}
    sizes: dict[int, int] = {}
    texts = peak = 0
    wanted: dict[str, int] = {}
    for what, number, size in changes:
        if what == "free":
            owners.pop(number, None)
            sizes.pop(number, None)
        elif what == "change":
            texts += size
            ledger.change(size)
        else:
            owner = owners.setdefault(number, Owner())
            if what == "book" or number not in sizes:
                sizes[number] = size
            getattr(ledger, what)(owner, size, f"node {number}")
        total = sum(sizes.values()) + texts
        if total > peak:
            peak = total
            wanted = {f"node {each}": held for each, held in sizes.items()} | (
                {"texts": texts} if texts else {}
            )
    found = ledger.holders_at_peak()
    assert found == wanted
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert sum(found.values()) == ledger.peak == peak


async def test_a_step_tells_them_if_memory_is_counted() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    wide = g.ops.Tile(x, [1000], name="wide")
    y = g.ops.Sum(g.ops.Neg(g.ops.Slice(wide, [0], [500], name="half"), name="less"), 0, name="y")
    feeds = {x: np.ones(2, np.float32)}
    for devices in (1, 2):
        config = fe.Config(count_allocations=True, device_count={"CPU": devices})
        async with fe.Session(g, config=config) as session:
            metadata = fe.RunMetadata()
            await session.run(y, feeds, run_metadata=metadata)
        assert next(iter(metadata.peak_holders)) == "wide"
        assert sum(metadata.peak_holders.values()) == metadata.peak_bytes
    async with fe.Session(g) as session:
        metadata = fe.RunMetadata()
        await session.run(y, feeds, run_metadata=metadata)
        assert metadata.peak_holders == {}
