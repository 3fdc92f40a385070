"""Kits that any implementation can be put through: here, kernels.

check_kernel("AddV2", np.float32([1, 2]), np.float32(3), expected=np.float32([4, 5]))
check_kernel("Halve", np.float32([3]), expected=np.float32([1.5]), ops=my_ops, kernels=my_kernels)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, describe, to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import Node
from flowengine.ir.opdef import OpRegistry
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
    ops: OpRegistry | None = None,
    kernels: KernelRegistry | None = None,
    **attrs: Any,
) -> tuple[Array, ...]:
    """Compute an op on plain tensors, check what every kernel promises, and return its outputs.

    op         name of the op; its kernel is the one for the CPU, or for any device
    inputs     arrays, or a sequence of arrays for a list input
    expected   the output, or a tuple of the outputs; compared exactly unless they are floats
    ops        where the op is defined, if not in this package
    kernels    where its kernel is, if not in this package
    attrs      attributes that the inputs do not determine

    Checked: inputs are not written; outputs are as many as in the signature, and of its types; rank-0 inputs
    may be NumPy scalars and `bytes` as well as arrays; the shape function agrees with the outputs, and with
    unknown input shapes claims nothing that is not so. Raises AssertionError saying what does not hold, which
    includes an error of Python's or NumPy's that the kernel raises, and errors of `flowengine.errors` for an
    unknown op, kernel or attribute, or as the kernel raises them for inputs that it refuses.

    Floats are compared within `rtol` of the expected value and `atol`.
    """
    arrays = [_arrays(value) for value in inputs]
    node, shapes = _node(op, arrays, attrs, ops, known=True)
    outputs = _call(node, arrays, kernels, scalars=False)
    for number, (output, dtype, shape) in enumerate(zip(outputs, node.output_types, shapes, strict=True)):
        _require(
            output.dtype == dtype.as_numpy_dtype,
            f"{op}: output {number} is {output.dtype}, the signature says {dtype}",
        )
        _require(
            shape.is_compatible_with(TensorShape(output.shape)),
            f"{op}: output {number} has shape {list(output.shape)}, the shape function says {shape}",
        )
    for number, shape in enumerate(_node(op, arrays, attrs, ops, known=False)[1]):
        _require(
            shape.is_compatible_with(TensorShape(outputs[number].shape)),
            f"{op}: output {number} has shape {list(outputs[number].shape)}; of inputs of unknown shape "
            f"the shape function claims {shape}",
        )
    again = _call(node, arrays, kernels, scalars=True)
    for number, (one, other) in enumerate(zip(outputs, again, strict=True)):
        _assert_same(f"{op}: output {number} from scalars", other, one, 0.0, 0.0)
    if expected is not None:
        wanted = expected if isinstance(expected, tuple) else (expected,)
        _require(len(wanted) == len(outputs), f"{op}: {len(outputs)} outputs, {len(wanted)} expected")
        for number, (output, want) in enumerate(zip(outputs, wanted, strict=True)):
            _assert_same(f"{op}: output {number}", output, to_array(want), rtol, atol)
    return outputs


def _require(holds: bool, otherwise: str) -> None:
    # No assert statement, which `python -O` leaves out.
    if not holds:
        raise AssertionError(otherwise)


def _arrays(value: Any) -> Any:
    return [to_array(v) for v in value] if isinstance(value, list | tuple) else to_array(value)


def _node(
    op: str, inputs: Sequence[Any], attrs: Any, ops: OpRegistry | None, *, known: bool
) -> tuple[Node, list[TensorShape]]:
    """The node on placeholders, and what is inferred of the shapes of its outputs."""
    g = Graph(registry=ops)

    def placeholder(array: Array) -> Tensor:
        return g.placeholder(as_dtype(array.dtype), array.shape if known else None)

    tensors = [[placeholder(a) for a in i] if isinstance(i, list) else placeholder(i) for i in inputs]
    made = g.create_op(op, tensors, attrs)
    return made.node, [g.shape_of(tensor.port) for tensor in made.outputs]


def _call(
    node: Node, inputs: Sequence[Any], kernels: KernelRegistry | None, *, scalars: bool
) -> tuple[Array, ...]:
    # What it gives is looked at here, more closely than where it is bound for a step.
    kernel = replace((kernels or load_all()).find(node), is_foreign=False)
    function = kernel.bind_nowait(node) if kernel.is_async else kernel.bind(node)
    if function is None:
        raise AssertionError(f"{node.op} may have to wait: it cannot be checked here")
    keywords: dict[str, Any] = {}
    if kernel.takes_context:
        keywords["ctx"] = KernelContext(resources=ResourceManager(), step_container=StepContainer())
    held: list[tuple[Array, Array]] = []

    def given(array: Array) -> Any:
        held.append((array, array.copy()))
        array = array.view()
        array.flags.writeable = False
        return array[()] if scalars and not array.ndim else array

    arguments = [tuple(map(given, i)) if isinstance(i, list) else given(i) for i in inputs]
    with np.errstate(all="ignore"):
        try:
            result = function(*arguments, **keywords)
        except OpError:
            raise
        except Exception as error:
            raise AssertionError(_raised(node, error, inputs, scalars=scalars)) from error
    for array, before in held:
        _assert_same(f"{node.op}: an input, after the call", array, before, 0.0, 0.0)
    return _outputs(node, result)


def _raised(node: Node, error: Exception, inputs: Sequence[Any], *, scalars: bool) -> str:
    """Say what a kernel did that it raised an error of Python's or NumPy's, and what to do about it."""
    shown = ", ".join(
        "[" + ", ".join(map(describe, each)) + "]" if isinstance(each, list) else describe(each)
        for each in inputs
    )
    text = f"{node.op}: the kernel raised {type(error).__name__}: {error}; its inputs were {shown}"
    if isinstance(error, ValueError) and ("read-only" in str(error) or "WRITEABLE" in str(error)):
        return f"{text}. It writes into an input, which other nodes may read: write into a copy"
    if scalars and any(not array.ndim for each in inputs for array in _listed(each)):
        return f"{text}. Inputs of rank 0 were NumPy scalars or bytes here, not arrays: a kernel takes both"
    return f"{text}. For inputs that are wrong it raises an error of flowengine.errors"


def _listed(value: Any) -> Sequence[Array]:
    return value if isinstance(value, list) else [value]


def _outputs(node: Node, result: Any) -> tuple[Array, ...]:
    """Return a kernel's result as one array for each output."""
    count = len(node.output_types)
    if count == 1 and result is not None and not isinstance(result, tuple):
        return (to_array(result),)
    if not count and result is None:
        return ()
    _require(
        isinstance(result, tuple) and len(result) == count and count > 1,
        f"{node.op}: the kernel returned {_described(result)}, the signature has {count} outputs: return "
        f"{('None', 'the array')[count] if count < 2 else f'a tuple of {count} arrays'}",
    )
    return tuple(map(to_array, result))


def _described(result: Any) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _assert_same(what: str, got: Array, want: Array, rtol: float, atol: float) -> None:
    _require(got.dtype == want.dtype, f"{what}: {got.dtype}, expected {want.dtype}")
    _require(got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}")
    if want.dtype.kind in "fcV" and (rtol or atol):
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


__all__ = ["check_kernel"]
