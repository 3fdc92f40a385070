"""A joint that is suspended between its layers goes on where it was, whoever computes meanwhile."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.numpy.sequences import Progress
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.programs import program
from tests.kernels.onednn.rig import ENOUGH, ONE, Rig, chain, inputs_of_chain, numbers, same
from tests.kernels.turns import Turns

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def _branches() -> Rig:
    """Two layers side by side, joined, pooled, and one behind: five steps, of which NumPy computes one."""
    graph = fe.Graph()
    ops = graph.ops
    x, w, v = (graph.placeholder("float32", None, name=name) for name in "xwv")
    sides = [ops.Conv2D(x, w, **ONE), ops.Relu(ops.Conv2D(x, w, **ONE))]
    pooled = ops.MaxPool(ops.ConcatV2(sides, graph.constant(3)), ksize=[1, 3, 3, 1], **ONE)
    return Rig(graph, [ops.Conv2D(pooled, v, **ONE)])


def _values(seed: int, count: int = 2) -> dict[str, Any]:
    return {
        "x": numbers(seed, count, 12, 12, 16),
        "w": numbers(seed + 1, 3, 3, 16, 16),
        "v": numbers(seed + 2, 1, 1, 32, 24),
    }


def test_a_joint_takes_one_layer_a_turn() -> None:
    """Beside another run of the same joint, and others on the same thread, which use its scratch memory."""
    rig, other = _branches(), chain()
    rig.join(**_values(0))
    other.join(**inputs_of_chain())

    def between() -> None:
        rig.check(**_values(50))
        other.check(**inputs_of_chain(7))

    turns = Turns(itertools.repeat(True), between)
    rig.check(turns=turns, **_values(9))
    # Filters are brought into order in steps of their own.
    assert turns.count >= 4
    assert rig.ran_joined(**_values(3))


@pytest.mark.parametrize("is_first", [False, True])
def test_a_run_that_is_suspended_keeps_its_scratch_memory(is_first: bool) -> None:
    """Also where it is the thread's first, or the first to need so much."""
    rig = _branches()
    rig.join(**_values(0))
    values = _values(4)
    listed = rig.listed(values)
    expected = rig.alone(listed)
    if is_first:
        program._scratch.kept, program._scratch.base, program._scratch.size = None, 0, 0
    progress = rig.sequence.begin(listed, Turns([False, True]))
    assert isinstance(progress, Progress)
    assert program._scratch.base == program._scratch.size == 0
    rig.check(**_values(1))
    made = rig.sequence.go_on(progress, Turns([]))
    assert not isinstance(made, Progress)
    same(made, expected)


def test_a_run_that_is_given_up_leaves_nothing_behind() -> None:
    rig = _branches()
    rig.join(**_values(0))
    listed = rig.listed(_values(4))
    reference = weakref.ref(listed[rig.names.index("x")])
    progress = rig.sequence.begin(listed, Turns([False, True]))
    assert isinstance(progress, Progress)
    del listed, progress
    gc.collect()
    assert reference() is None
    rig.check(**_values(1))
    assert rig.ran_joined(**_values(2))


def test_every_turn_may_be_on_another_thread() -> None:
    rig = _branches()
    rig.join(**_values(0))
    listed = rig.listed(_values(4))
    expected = rig.alone(listed)
    threads = 0
    made: Any = rig.sequence.begin(listed, Turns([True]))
    while isinstance(made, Progress):
        found: list[Any] = []
        progress = made

        def go_on(progress: Progress = progress, found: list[Any] = found) -> None:
            with np.errstate(all="ignore"):
                found.append(rig.sequence.go_on(progress, Turns([True])))

        thread = threading.Thread(target=go_on)
        thread.start()
        thread.join()
        threads += 1
        (made,) = found
    assert threads >= 3
    same(made, expected)


def test_maxima_that_are_not_numbers_are_found_at_the_end_of_the_last_turn() -> None:
    """The review of what was made comes when all is; then the kernels compute one by one."""
    graph = fe.Graph()
    ops = graph.ops
    x, w = (graph.placeholder("float32", None, name=name) for name in "xw")
    y = ops.Conv2D(x, w, **ONE)
    pooling: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    pooled = ops.MaxPool(y, **pooling)
    rig = Rig(graph, [ops.MaxPoolGrad(y, pooled, ops.Mul(pooled, pooled), **pooling)])
    values = {"x": numbers(0, 1, 8, 8, 16), "w": numbers(1, 1, 1, 16, 16)}
    for _ in range(ENOUGH):
        rig.check(turns=Turns(itertools.repeat(True)), **values)
    values["x"][0, 2, 3] = np.nan
    rig.check(turns=Turns(itertools.repeat(True)), **values)
