"""Strings count: a step that makes too many of them, or too long ones, ends before memory does."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flowengine as fe


def _doubled(g: fe.Graph) -> Any:
    text = g.placeholder("string", None, name="x")
    for _ in range(40):
        text = g.ops.StringJoin([text, text])
    return text


def _filled(g: fe.Graph) -> Any:
    size = g.ops.StringLength(g.placeholder("string", None, name="x"))
    return g.ops.Fill(g.ops.Reshape(g.ops.Mul(size, 1 << 26), [1]), "text")


def _many(g: fe.Graph) -> Any:
    made = [g.ops.StringJoin([g.placeholder("string", None, name="x"), "a" * 1000])]
    for number in range(40):
        made.append(g.ops.StringJoin([made[-1], str(number)]))
    return g.ops.ConcatV2(made, 0)


def _reduced(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    return g.ops.ReduceJoin(x, g.constant([0], "int32"), separator=b"-" * 100_000)


def _segments(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    return g.ops.UnsortedSegmentJoin(x, np.zeros(200, np.int32), np.int32(5), separator=b"-" * 100_000)


def _no_segments(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    return g.ops.UnsortedSegmentJoin(x, np.zeros(200, np.int32), np.int32(1 << 26), separator=b"")


def _ngrams(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    said: dict[str, Any] = {"ngram_widths": [100], "left_pad": b"", "right_pad": b"", "pad_width": 0}
    splits = g.constant([0, 200], "int64")
    return g.ops.StringNGrams(x, splits, separator=b"-" * 1000, preserve_short_sequences=False, **said)[0]


def _replaced(g: fe.Graph) -> Any:
    return g.ops.RegexReplace(g.placeholder("string", None, name="x"), ".", b"a" * 1_000_000)


def _one_replaced(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    return g.ops.StaticRegexReplace(x, pattern="t", rewrite=b"a" * 10_000_000, replace_global=False)


def _formatted(g: fe.Graph) -> Any:
    x = g.placeholder("string", None, name="x")
    return g.ops.StringFormat([x] * 40, template="%s" * 40, placeholder="%s", summarize=3)


_NUMBERS = np.array([b"%d" % n for n in range(200)], object)


@pytest.mark.parametrize(
    ("build", "value"),
    [
        *((build, _NUMBERS) for build in (_reduced, _segments, _no_segments, _ngrams)),
        *((build, b"ten bytes!") for build in (_doubled, _replaced, _one_replaced)),
        (_formatted, bytes(100_000)),
        (_filled, b"ten bytes!"),
        (_many, _NUMBERS),
    ],
)
async def test_a_step_ends_at_its_limit(build: Callable[[fe.Graph], Any], value: Any) -> None:
    g = fe.Graph()
    result = build(g)
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=2_000_000)) as session:
        tracemalloc.start()
        try:
            with pytest.raises(fe.errors.ResourceExhaustedError, match="memory_limit_bytes"):
                await session.run(result, {"x:0": value})
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


async def test_what_fits_is_given() -> None:
    g = fe.Graph()
    x = g.placeholder("string", None, name="x")
    y = g.ops.StringJoin([x, x])
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=2_000_000)) as session:
        assert len(await session.run(y, {x: b"a" * 500_000})) == 1_000_000
        assert await session.run(y, {x: np.array([b"a", b"b"], object)}) is not None
