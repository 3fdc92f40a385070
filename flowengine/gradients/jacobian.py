"""Jacobians and Hessians: a loop beside y, one row of the Jacobian an iteration.

    i = 0;  while i < size of y: rows[i] = gradient of y[i] by x;  i = i + 1

The sweep goes back from y once, and builds in that loop; the gradient that y is given there is one at the
element whose turn it is, and zero elsewhere. So a loop that lies between x and y gets one backward loop
within this one, and its history is kept in arrays, since each row reads it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.gradients.control_structure import structure_of
from flowengine.gradients.differentiate import differentiate, gradients, several
from flowengine.gradients.errors import GradientTypeError, GradientValueError
from flowengine.gradients.values import Gradient, dense
from flowengine.gradients.while_loops.carried_variables import CountingLoop
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def jacobian(
    y: Tensor,
    x: Tensor | Sequence[Tensor],
    *,
    stop_gradients: Tensor | Iterable[Tensor] = (),
    unconnected: str = "none",
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Any:
    """Extend the graph by the derivatives of each element of y by each element of x.

    y                    a floating tensor of any shape, which need not be known
    x                    one tensor or several; a variable is given by its handle or reference
    stop_gradients       tensors that are taken for constants
    unconnected          what an x on which y does not depend gets: "none" None, "zero" zeros
    parallel_iterations  how many rows may be computed at once
    name                 of the scope that holds the new nodes: "jacobian" unless it is given

    Returns a Tensor of the shape of y with that of x behind it, or None; for several xs a list of these. The
    work is one backward pass for each element of y, in a loop; gradients of the result can be taken. Raises
    TypeError for a y that is no floating tensor, UnimplementedError where a TensorArray lies between x and
    y, and what `gradients` raises.

    >>> graph = fe.Graph()
    >>> x = graph.constant([1.0, 2.0])
    >>> slopes = fe.jacobian(x * x, x)
    >>> fe.testing.evaluate(graph, [slopes.name])[0].tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    xs = several(x)
    _check_y(y)
    if unconnected not in ("none", "zero"):
        raise GradientValueError(f"unconnected is one of none, zero, not {unconnected!r}")
    stops = [stop_gradients] if isinstance(stop_gradients, Tensor) else list(stop_gradients)
    with y.graph.scopes.name_scope(name or "jacobian") as scope:
        loop = _JacobianLoop(y, scope, parallel_iterations)
        found = loop.rows(xs, stops)
        results = [
            _zeros(y.graph, [y, each]) if rows is None and unconnected == "zero" else rows
            for each, rows in zip(xs, found, strict=True)
        ]
    return results if isinstance(x, Sequence) else results[0]


def hessians(
    ys: Tensor | Sequence[Tensor],
    xs: Tensor | Sequence[Tensor],
    *,
    stop_gradients: Tensor | Iterable[Tensor] = (),
    parallel_iterations: int = 10,
    name: str | None = None,
) -> list[Tensor | None]:
    """Extend the graph by the second derivatives of the sum of all ys by the elements of each x.

    ys, xs, stop_gradients, name   as of `gradients`
    parallel_iterations   as of `jacobian`

    Returns one for each x: a Tensor of the shape of x twice, one behind the other, or None if no y depends on
    x or the gradient does not depend on it. Raises the errors of `gradients` and `jacobian`, such as
    TypeError (as InvalidArgumentError).

    >>> graph = fe.Graph()
    >>> x = graph.constant([1.0, 2.0])
    >>> curvature, = fe.hessians(x * x * x, x)
    >>> fe.testing.evaluate(graph, [curvature.name])[0].tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    sources = several(xs)
    target = ys[0] if isinstance(ys, Sequence) else ys
    stops = [stop_gradients] if isinstance(stop_gradients, Tensor) else list(stop_gradients)
    with target.graph.scopes.name_scope(name or "hessians"):
        first = gradients(ys, sources, stop_gradients=stops)
        return [
            None
            if slope is None
            else jacobian(_as_tensor(slope), x, stop_gradients=stops, parallel_iterations=parallel_iterations)
            for slope, x in zip(first, sources, strict=True)
        ]


def _as_tensor(gradient: Gradient) -> Tensor:
    if isinstance(gradient, Tensor):
        return gradient
    graph = gradient.values.graph
    return dense(graph, graph.ops, gradient)


class _JacobianLoop:
    """The loop beside y: its counter is built, and closed, before anything else of it."""

    def __init__(self, y: Tensor, scope: str, parallel_iterations: int) -> None:
        self.y = y
        self.graph = graph = y.graph
        self._size: Tensor = graph.ops.Size(y, name="size")
        self._shape = _shape(y)
        zero = graph.constant(0, name="zero")
        self._loop = CountingLoop(graph, scope.rstrip("/"), parallel_iterations, self._size, zero)
        self._row = self._loop.number

    def rows(self, xs: Sequence[Tensor], stops: Sequence[Tensor]) -> list[Tensor | None]:
        """The Jacobian by each x."""
        graph = self.graph
        frame = structure_of(graph).frame(self._row.node_name)
        with graph.scopes.apart(self._row.node_name):
            seed = self._seed()
            found = differentiate([self.y], xs, [seed], stops, frame=frame)
        return [None if each is None else self._stacked(x, each) for x, each in zip(xs, found, strict=True)]

    def _seed(self) -> Tensor:
        """One at the element whose turn it is."""
        ops, graph = self.graph.ops, self.graph
        dtype = self.y.dtype.base
        one, zero = (graph.constant(np.array(value, dtype.as_numpy_dtype)) for value in (1, 0))
        flat = ops.OneHot(self._row, self._loop.count, one, zero)
        known = self.y.shape.as_tuple()
        shape = (
            self._loop.entered(self._shape) if known is None else graph.constant(np.array(known, np.int32))
        )
        seed: Tensor = ops.Reshape(flat, shape)
        return seed

    def _stacked(self, x: Tensor, gradient: Gradient) -> Tensor:
        """The gradients of all rows, in the shape of the Jacobian."""
        graph = self.graph
        ops, scopes = graph.ops, graph.scopes
        shape, dtype = _type(x)
        # Rows of a shape that is not known cannot be joined if there are none: one of zeros is put behind.
        is_sure = shape.is_fully_defined or bool(self.y.shape.num_elements())
        count = self._size if is_sure else ops.Add(self._size, graph.constant(1))
        array = ops.TensorArrayV3(count, dtype=dtype, element_shape=shape, name="rows")
        flow = array.flow
        if not is_sure:
            flow = ops.TensorArrayWriteV3(array.handle, self._size, _zeros(graph, [x]), flow)
        variable = self._loop.carried(flow)
        with scopes.apart(self._row.node_name):
            row = gradient if isinstance(gradient, Tensor) else dense(graph, ops, gradient)
            handle = self._loop.entered(array.handle)
            written = ops.TensorArrayWriteV3(handle, self._row, row, variable.inside)
        last = variable.close(written)
        numbers = ops.Range(graph.constant(0), count, graph.constant(1))
        rows = ops.TensorArrayGatherV3(array.handle, numbers, last, dtype=dtype, element_shape=shape)
        if not is_sure:
            end = ops.Reshape(self._size, np.ones(1, np.int32))
            rows = ops.StridedSlice(rows, np.zeros(1, np.int32), end, np.ones(1, np.int32))
        result: Tensor = ops.Reshape(rows, ops.ConcatV2([self._shape, _shape(x)], 0), name="by_elements")
        return result


def _check_y(y: Any) -> None:
    if not isinstance(y, Tensor) or not y.dtype.is_floating:
        raise GradientTypeError(f"the y of a Jacobian is one floating tensor, not {y!r}")


def _type(x: Tensor) -> tuple[TensorShape, DType]:
    """Shape and type of a tensor; of the variable behind a handle."""
    if x.dtype.base is dtypes.resource:
        return x.graph.variable_behind(x)
    return x.shape, x.dtype.base


def _shape(x: Tensor) -> Tensor:
    """The shape of a tensor, int32; of the variable behind a handle."""
    known = _type(x)[0].as_tuple()
    if known is not None:
        return x.graph.constant(np.array(known, np.int32), name="shape")
    ops = x.graph.ops
    found: Tensor = (ops.VariableShape if x.dtype.base is dtypes.resource else ops.Shape)(x, name="shape")
    return found


def _zeros(graph: Graph, tensors: Sequence[Tensor]) -> Tensor:
    """Zeros of the shapes of tensors, one behind the other, and of the type of the last."""
    shapes = [_shape(each) for each in tensors]
    shape = shapes[0] if len(shapes) == 1 else graph.ops.ConcatV2(shapes, 0)
    zero = graph.constant(np.zeros((), _type(tensors[-1])[1].as_numpy_dtype))
    zeros: Tensor = graph.ops.Fill(shape, zero)
    return zeros
