"""Kernels over strings that take long run beside the event loop, and the step ends without them."""

from __future__ import annotations

import random
import threading
import weakref
import zlib
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.kernels.strings import splitting as regex
from flowengine.ops.load import registry


def _texts(count: int) -> Any:
    array = np.empty(count, object)
    array[:] = [b"text number %d" % number for number in range(count)]
    return array


OPS: dict[str, Any] = {
    "RegexFullMatch": lambda g, x: g.ops.RegexFullMatch(x, ".*7"),
    "RegexReplace": lambda g, x: g.ops.RegexReplace(x, "t", "T"),
    "StaticRegexReplace": lambda g, x: g.ops.StaticRegexReplace(x, pattern="t", rewrite="T"),
    "StringUpper": lambda g, x: g.ops.StringUpper(x),
    "StringToHashBucketFast": lambda g, x: g.ops.StringToHashBucketFast(x, num_buckets=10),
    "StringLength": lambda g, x: g.ops.StringLength(x),
}


@pytest.mark.parametrize("op", OPS)
async def test_a_long_batch_is_for_a_thread_and_a_short_one_is_not(op: str) -> None:
    g = fe.Graph()
    x = g.placeholder("string", None, name="x")
    y = OPS[op](g, x)
    async with fe.Session(g) as session:
        for value, heavy in ((_texts(20_000), 1), (_texts(3), 0), (b"alone", 0)):
            metadata = fe.RunMetadata()
            result = await session.run(y, {x: value}, run_metadata=metadata)
            assert metadata.heavy_items == heavy
            small = np.asarray(result).reshape(-1)[:3]
            alone = [await session.run(y, {x: text}) for text in np.asarray(value, object).reshape(-1)[:3]]
            assert small.tolist() == [np.asarray(each).item() for each in alone]


async def test_what_is_to_be_decompressed_is_for_a_thread() -> None:
    g = fe.Graph()
    g.ops.DecodeCompressed(g.placeholder("string", None, name="x"), compression_type="ZLIB", name="y")
    async with fe.Session(g) as session:
        for value, heavy in (
            (zlib.compress(random.Random(1).randbytes(100_000)), 1),
            (zlib.compress(b"a"), 0),
        ):
            metadata = fe.RunMetadata()
            assert await session.run("y:0", {"x:0": value}, run_metadata=metadata) == zlib.decompress(value)
            assert metadata.heavy_items == heavy


async def test_a_step_ends_at_its_deadline_while_a_kernel_over_strings_goes_on() -> None:
    ops = fe.OpRegistry(parent=registry())
    ops.register(fe.OpDef.parse("Read(x: string) -> y: string"))
    kernels = fe.KernelRegistry(parent=load_all())
    go, gone = threading.Event(), threading.Event()

    @kernels.kernel("Read", heavy=lambda x: 1e6)
    def read(x: Any) -> Any:
        go.wait()
        gone.set()
        return x

    g = fe.Graph(registry=ops)
    x = g.placeholder("string", [], name="x")
    y = g.create_op("Read", [x], {}, "y").outputs[0]
    g.ops.StringUpper(y, name="z")
    async with fe.Session(g, kernels=kernels) as session:
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run("z:0", {x: b"a"}, options=fe.RunOptions(timeout_seconds=0.02))
        assert not gone.is_set()
        go.set()
        assert await session.run("z:0", {x: b"a"}) == b"A"


async def test_nobody_goes_over_the_rest_of_a_batch_when_the_step_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go, gone = threading.Event(), threading.Event(), threading.Event()
    matched: list[bytes] = []

    class Pattern:
        def fullmatch(self, text: bytes) -> None:
            matched.append(text)
            begun.set()
            go.wait(20)

    made = [Pattern()]
    weakref.finalize(made[0], gone.set)  # when the kernel that has it is over
    monkeypatch.setattr(regex, "compiled", lambda _: made.pop())
    g = fe.Graph()
    x = g.placeholder("string", None, name="x")
    g.ops.RegexFullMatch(x, ".*7", name="y")
    async with fe.Session(g) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.run, "y:0", {"x:0": _texts(20_000)})
        assert await trio.to_thread.run_sync(begun.wait, 20)
        nursery.cancel_scope.cancel()
    go.set()
    assert await trio.to_thread.run_sync(gone.wait, 20)
    assert len(matched) <= 16
