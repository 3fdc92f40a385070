"""Pooling over windows of two neighbouring sizes, and gradients of its gradients.

Windows are cut at rows `r[0] < r[1] < ...`: window i is from r[i] up to r[i + 1], that row included where
windows overlap. The ops of the gradients are linear in what comes back, so their own gradients are sums over
windows, taken as differences of running sums.
"""

from __future__ import annotations

import itertools

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("FractionalMaxPool")
def max_pool(b: Backward, op: Operation, grad: Tensor, *cuts: Tensor) -> Results:
    y, rows, columns = op.outputs
    return [b.ops.FractionalMaxPoolGrad(op.inputs[0], y, grad, rows, columns, **same(op, "overlapping"))]


@gradient("FractionalAvgPool")
def avg_pool(b: Backward, op: Operation, grad: Tensor, *cuts: Tensor) -> Results:
    _, rows, columns = op.outputs
    shape = b.shape(op.inputs[0], "int64")
    return [b.ops.FractionalAvgPoolGrad(shape, grad, rows, columns, **same(op, "overlapping"))]


@gradient("FractionalAvgPoolGrad")
def avg_pool_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Each window's gradient was shared by its elements: the mean over the window gathers the shares."""
    _, _, rows, columns = op.inputs
    counts = _window_sums(b, op, b.ops.OnesLike(grad), rows, columns)
    return [None, b.ops.RealDiv(_window_sums(b, op, grad, rows, columns), counts), None, None]


def _window_sums(b: Backward, op: Operation, x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(N, H, W, C) -> (N, windows, windows, C)"""
    for axis, cuts in ((1, rows), (2, columns)):
        x = _sums_between(b, x, cuts, axis, overlapping=op.get_attr("overlapping"))
    return x


def _sums_between(b: Backward, x: Tensor, cuts: Tensor, axis: int, *, overlapping: bool) -> Tensor:
    """Sums along an axis from each cut to the next; the last window ends with the axis."""
    one, where = b.constant([1], "int64"), b.constant(axis, "int32")
    length = b.ops.GatherV2(
        b.ops.Shape(x, out_type="int64"), b.constant([axis], "int32"), b.constant(0, "int32")
    )
    begin = b.ops.Slice(cuts, b.constant([0], "int64"), b.ops.Sub(b.ops.Shape(cuts, out_type="int64"), one))
    end = b.ops.Slice(cuts, one, b.constant([-1], "int64"))
    if overlapping:
        end = b.ops.AddV2(end, one)
    end = b.ops.Minimum(end, length)
    # The running sum of the first i elements stands at i.
    before = [[int(i == axis), 0] for i in range(4)]
    running = b.ops.Cumsum(b.ops.Pad(x, b.constant(before, "int32")), where)
    sums: Tensor = b.ops.Sub(b.ops.GatherV2(running, end, where), b.ops.GatherV2(running, begin, where))
    return sums


@gradient("FractionalMaxPoolGrad")
def max_pool_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The gradient of each window is found where its maximum was.

    Windows that overlap may share a maximum. Every other one never does, so windows go by odd and even rows
    and columns: the op itself marks the maxima of each kind, and the sum over a window finds the one mark.
    """
    x, y, _, rows, columns = op.inputs
    how = same(op, "overlapping")
    ones, found = b.ops.OnesLike(y), None
    for turns in itertools.product(*[(0, 1) if how["overlapping"] else (None,)] * 2):
        kind = ones
        for axis, turn in zip((1, 2), turns, strict=True):
            if turn is not None:
                kind = b.ops.Mul(kind, _every_other(b, y, axis, turn))
        marks = b.ops.FractionalMaxPoolGrad(x, y, kind, rows, columns, **how)
        sums = b.ops.Mul(kind, _window_sums(b, op, b.ops.Mul(marks, grad), rows, columns))
        found = sums if found is None else b.ops.AddV2(found, sums)
    return [b.zeros_like(x), b.zeros_like(y), found, None, None]


def _every_other(b: Backward, y: Tensor, axis: int, turn: int) -> Tensor:
    """1 at the windows whose number along the axis is even (turn 0) or odd (1), else 0; broadcasts like y."""
    zero, one = b.constant(0, "int32"), b.constant(1, "int32")
    count = b.ops.GatherV2(b.shape(y), b.constant(axis, "int32"), zero)
    numbers = b.ops.Range(zero, count, one)
    chosen = b.ops.Equal(b.ops.FloorMod(numbers, b.constant(2, "int32")), b.constant(turn, "int32"))
    layout = [1, 1, 1, 1]
    layout[axis] = -1
    kind: Tensor = b.ops.Reshape(b.ops.Cast(chosen, DstT=y.dtype.base), b.constant(layout, "int32"))
    return kind
