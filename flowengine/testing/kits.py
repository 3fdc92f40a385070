"""Kits that any implementation can be put through: here, kernels.

check_kernel("AddV2", np.float32([1, 2]), np.float32(3), expected=np.float32([4, 5]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.container import ResourceManager, StepContainer


def check_kernel(
    op: str,
    *inputs: Any,
    expected: Any = None,
    rtol: float = 1e-6,
    atol: float = 0.0,
    registry: KernelRegistry | None = None,
    **attrs: Any,
) -> tuple[Array, ...]:
    """Compute an op on plain tensors, check what every kernel promises, and return its outputs.

    op         name of the op; its kernel for the CPU is taken from `registry`
    inputs     arrays, or a sequence of arrays for a list input
    expected   the output, or a tuple of the outputs; compared exactly unless they are floats

    Checked: inputs are not written; outputs have the types of the signature; rank-0 inputs may be NumPy
    scalars and `bytes` as well as arrays; the shape function agrees with the outputs, and with unknown
    input shapes claims nothing that is not so. Raises AssertionError saying what does not hold.
    """
    arrays = [_arrays(value) for value in inputs]
    node, shapes = _node(op, arrays, attrs, known=True)
    outputs = _call(node, arrays, registry, scalars=False)
    for number, (output, dtype, shape) in enumerate(zip(outputs, node.output_types, shapes, strict=True)):
        assert output.dtype == dtype.as_numpy_dtype, (
            f"{op}: output {number} is {output.dtype}, the signature says {dtype}"
        )
        assert shape.is_compatible_with(TensorShape(output.shape)), (
            f"{op}: output {number} has shape {list(output.shape)}, the shape function says {shape}"
        )
    for number, shape in enumerate(_node(op, arrays, attrs, known=False)[1]):
        assert shape.is_compatible_with(TensorShape(outputs[number].shape)), (
            f"{op}: output {number} has shape {list(outputs[number].shape)}; of inputs of unknown shape "
            f"the shape function claims {shape}"
        )
    for number, (one, other) in enumerate(
        zip(outputs, _call(node, arrays, registry, scalars=True), strict=True)
    ):
        _assert_same(f"{op}: output {number} from scalars", other, one, 0.0, 0.0)
    if expected is not None:
        wanted = expected if isinstance(expected, tuple) else (expected,)
        assert len(wanted) == len(outputs), f"{op}: {len(outputs)} outputs, {len(wanted)} expected"
        for number, (output, want) in enumerate(zip(outputs, wanted, strict=True)):
            _assert_same(f"{op}: output {number}", output, to_array(want), rtol, atol)
    return outputs


def _arrays(value: Any) -> Any:
    return [to_array(v) for v in value] if isinstance(value, list | tuple) else to_array(value)


def _node(op: str, inputs: Sequence[Any], attrs: Any, *, known: bool) -> tuple[Node, list[TensorShape]]:
    """The node on placeholders, and what is inferred of the shapes of its outputs."""
    g = Graph()

    def placeholder(array: Array) -> Tensor:
        return g.placeholder(as_dtype(array.dtype), array.shape if known else None)

    tensors = [[placeholder(a) for a in i] if isinstance(i, list) else placeholder(i) for i in inputs]
    made = getattr(g.ops, op)(*tensors, **attrs)
    while isinstance(made, tuple):
        made = made[0]
    name = made.name if isinstance(made, Operation) else made.node_name
    node = g[name]
    return node, [g.shape_of(g.operation(name).outputs[i].port) for i in range(len(node.output_types))]


def _call(
    node: Node, inputs: Sequence[Any], registry: KernelRegistry | None, *, scalars: bool
) -> tuple[Array, ...]:
    # What it gives is looked at here, more closely than where it is bound for a step.
    kernel = replace((registry or load_all()).find(node), is_foreign=False)
    function = kernel.bind_nowait(node) if kernel.is_async else kernel.bind(node)
    assert function is not None, f"{node.op} may have to wait: it cannot be checked here"
    keywords: dict[str, Any] = {}
    if kernel.takes_context:
        keywords["ctx"] = KernelContext(resources=ResourceManager(), step_container=StepContainer())
    held: list[tuple[Array, Array]] = []

    def given(array: Array) -> Any:
        held.append((array, array.copy()))
        array = array.view()
        array.flags.writeable = False
        return array[()] if scalars and not array.ndim else array

    with np.errstate(all="ignore"):
        result = function(
            *(tuple(map(given, i)) if isinstance(i, list) else given(i) for i in inputs), **keywords
        )
    for array, before in held:
        _assert_same(f"{node.op}: an input, after the call", array, before, 0.0, 0.0)
    if result is None:
        return ()
    return (to_array(result),) if len(node.output_types) == 1 else tuple(map(to_array, result))


def _assert_same(what: str, got: Array, want: Array, rtol: float, atol: float) -> None:
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if want.dtype.kind in "fcV" and (rtol or atol):
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


__all__ = ["check_kernel"]
