"""What joined layers keep between them lies where nothing is still needed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.common.pieces import Like, Piece, Placed, Same
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.programs import joint
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.program import KEPT_BYTES, padded
from tests.kernels.onednn.rig import ONE, Rig, chain, inputs_of_chain, numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


class _Memory:
    """Whose bytes are whose, in lines of 64."""

    def __init__(self) -> None:
        self.owner: dict[int, int] = {}

    def write(self, number: int, offset: int, size: int) -> None:
        assert offset % 64 == 0
        self.owner.update(dict.fromkeys(range(offset // 64, (offset + size + 63) // 64), number))

    def check(self, number: int, offset: int, size: int) -> None:
        for line in range(offset // 64, (offset + size + 63) // 64):
            assert self.owner[line] == number, f"{number} was overwritten by {self.owner[line]}"


def _unused(placed: Sequence[Placed], wanted: Any) -> Any:
    raise AssertionError("only arranged")


@st.composite
def arrangements(draw: Any) -> tuple[list[Placed], dict[int, Like], set[int]]:
    made: dict[int, Like] = {}
    pieces: list[Placed] = []
    count = inputs = draw(st.integers(1, 3))
    for _ in range(draw(st.integers(1, 10))):
        taken = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
        results: list[int] = []
        told: list[Like | Same] = []
        for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
            made[count] = Like((draw(st.integers(0, 4)), draw(st.integers(1, 40))), np.dtype(np.float32))
            told.append(made[count])
            results.append(count)
            count += 1
        if draw(st.sampled_from([False, False, True])):
            told.append(Same(None))  # which nobody in here takes
            results.append(-count)
        program = SimpleNamespace(scratch_bytes=64 * draw(st.integers(0, 4)))
        sources = (*range(len(taken)), *(~slot for slot, each in enumerate(told) if isinstance(each, Like)))
        piece = Piece(((program, sources),), (None,) * len(taken), tuple(told), _unused)
        pieces.append((piece, taken, results))
    wanted = draw(st.sets(st.integers(inputs, count - 1), max_size=4))
    return pieces, made, wanted


@settings(max_examples=200)
@given(arrangements(), st.sampled_from([KEPT_BYTES, 4096, 1024, 64, 0]))
def test_nothing_lies_where_something_is_still_needed(
    arrangement: tuple[list[Placed], dict[int, Like], set[int]], scratch_max: int
) -> None:
    pieces, made, wanted = arrangement
    with mock.patch.object(joint, "_SCRATCH_MAX", scratch_max):
        offsets, outs, used = joint._arranged(pieces, made, wanted)
    sizes = {n: int(np.prod(like.shape)) * 4 for n, like in made.items()}
    assert sorted([*offsets, *(number for number, _ in outs)]) == sorted(made)
    assert wanted.isdisjoint(offsets)
    assert all(made[number] is like for number, like in outs)
    assert all(offset + padded(sizes[n]) <= used for n, offset in offsets.items())
    own = max(program.scratch_bytes for piece, _, _ in pieces for program, _ in piece.calls)
    assert used + own <= scratch_max or not offsets
    if scratch_max == KEPT_BYTES:
        assert set(offsets) == set(made) - wanted
    elif offsets:
        # The largest are arrays.
        largest = max(sizes[number] for number in offsets)
        assert all(sizes[number] >= largest for number, _ in outs if number not in wanted)
    memory = _Memory()
    for _, taken, results in pieces:
        for number in results:
            if number in offsets:
                memory.write(number, offsets[number], sizes[number])
        # Read after all of its results are written: one primitive may do one before the other.
        for number in (*taken, *results):
            if number in offsets:
                memory.check(number, offsets[number], sizes[number])


def test_memory_that_nobody_needs_any_more_is_used_again() -> None:
    graph = fe.Graph()
    y = graph.placeholder("float32", None, name="x")
    for _ in range(8):
        y = graph.ops.MaxPool(y, ksize=[1, 3, 3, 1], **ONE)
    rig = Rig(graph, [y])
    value = numbers(0, 1, 16, 16, 16)
    rig.join(x=value)
    (unit,) = rig.sequence._units
    assert isinstance(unit.joint, JointProgram)
    assert 2 * value.nbytes <= unit.joint._program.scratch_bytes < 3 * value.nbytes
    assert len(unit.joint._outs) == 1


def test_too_much_scratch_memory_makes_arrays_of_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    def joined(scratch_max: int) -> JointProgram:
        monkeypatch.setattr(joint, "_SCRATCH_MAX", scratch_max)
        rig = chain()
        for seed in range(5):
            rig.check(**inputs_of_chain(seed))
        (unit,) = rig.sequence._units
        assert isinstance(unit.joint, JointProgram)
        return unit.joint

    every = joined(KEPT_BYTES)
    enough = every._program.scratch_bytes
    assert len(every._outs) == len(joined(enough)._outs) == 1
    (large, form), _ = joined(enough - 1)._outs
    assert form.shape == (2, 9, 9, 24)
    assert [number for number, _ in joined(0)._outs] == [large, large + 1, large + 2]
