"""Estimates of nodes' costs from their ops and the shapes of the graph, before any run.

Microseconds on a device of speed 1, which is one core of an ordinary server; bytes of each output. Kernels
that know their cost (`heavy=`) get stand-ins of the inferred shapes; the cost of others is estimated from
their bytes. An unknown dimension counts as a usual one: measured costs correct that (`passes.costs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.frames import FramePath, assign_frames
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import LOOPING_CALL_OPS
from flowengine.ir.proto import FunctionDefLibrary
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.ops.shape_inference import ShapeInference, infer_shapes

#: To schedule an item and to call a small kernel: 0.4-0.7 us for the first, 0.3 us or so for the second.
ITEM_MICROSECONDS: Final = 1.0
#: An item that the runtime handles itself, or a kernel that only makes a view.
TRIVIAL_MICROSECONDS: Final = 0.5
#: Bytes that an elementwise kernel reads and writes; half of the memory's rate, since most compute something.
BYTES_A_MICROSECOND: Final = 4_000.0
#: A function call with an unknown body.
CALL_MICROSECONDS: Final = 100.0
#: A dimension that the graph leaves open: most often the batch.
USUAL_DIMENSION: Final = 32
#: Bytes of a tensor of unknown rank, and of a string.
USUAL_BYTES: Final = 1024
STRING_BYTES: Final = 64
#: The assumed iterations of a loop's body, for each level of nesting, until it is measured.
USUAL_ITERATIONS: Final = 10
_NESTED_MAX: Final = 3

#: Errors of a kernel's own estimate: stand-ins have no values, and references are not arrays.
_NO_ESTIMATE: Final = (OpError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

#: Functions within functions are followed to this depth.
_CALLS_MAX: Final = 8


class Estimator:
    """Estimates for the nodes of one graph.

    shapes   known shapes of the graph; inferred unless given
    frames   the loop of each node
    """

    def __init__(
        self,
        graph: NodeGraph,
        kernels: KernelRegistry,
        shapes: ShapeInference | None = None,
        frames: Mapping[str, FramePath] | None = None,
    ) -> None:
        self.graph = graph
        self.kernels = kernels
        self.shapes = shapes if shapes is not None else infer_shapes(graph)
        self.frames = frames if frames is not None else _frames(graph)
        library = graph.library
        self._functions = (
            {f.signature.name: f for f in library.function} if isinstance(library, FunctionDefLibrary) else {}
        )
        #: {function: microseconds of its body}
        self._bodies: dict[str, float] = {}
        #: {(op, types): kernel}; estimates do not depend on the kernel's other attributes
        self._kernels: dict[tuple[str, tuple[DType, ...]], Kernel | None] = {}

    def iterations(self, node: Node) -> float:
        """Return the assumed number of runs in a step."""
        depth = len(self.frames.get(node.name, ()))
        return float(USUAL_ITERATIONS ** min(depth, _NESTED_MAX)) if depth else 1.0

    def output_bytes(self, node: Node) -> tuple[float, ...]:
        """Return the bytes of each output, once."""
        shapes = self.shapes.shapes(node.name)
        return tuple(
            bytes_of(shapes[slot] if slot < len(shapes) else TensorShape(None), dtype)
            for slot, dtype in enumerate(node.output_types)
        )

    def microseconds(self, node: Node) -> float:
        """Return the microseconds of one run on a device of speed 1."""
        kernel = self._kernel(node)
        if kernel is None:
            return self._call(node)
        if kernel.heavy is False or kernel.is_async:
            return TRIVIAL_MICROSECONDS
        if callable(kernel.heavy):
            try:
                return ITEM_MICROSECONDS + max(0.0, float(kernel.heavy(*self._stand_ins(node))))
            except _NO_ESTIMATE:
                pass
        moved = sum(self.output_bytes(node)) + sum(
            self._port_bytes(port, dtype)
            for port, dtype in zip(node.inputs, node.input_types(), strict=False)
        )
        return ITEM_MICROSECONDS + moved / BYTES_A_MICROSECOND

    def _call(self, node: Node) -> float:
        """Return the cost of a call, from the nodes in its bodies; without a body, the runtime does it."""
        names = [node.op] if node.op in self._functions else []
        for value in node.attrs.values():
            parts = value if isinstance(value, tuple) else (value,)
            names += [part.name for part in parts if isinstance(part, FuncAttr)]
        if not names:
            return CALL_MICROSECONDS if node.op_def is None else TRIVIAL_MICROSECONDS
        times = USUAL_ITERATIONS if node.op in LOOPING_CALL_OPS else 1
        return times * sum(self._body(name, _CALLS_MAX) for name in names)

    def _body(self, name: str, depth: int) -> float:
        function = self._functions.get(name)
        if function is None or not depth:
            return CALL_MICROSECONDS
        if name not in self._bodies:
            self._bodies[name] = CALL_MICROSECONDS  # of a recursive call
            total = 0.0
            for node in function.node_def:
                called = [node.op] if node.op in self._functions else []
                called += [attr.func.name for attr in node.attr.values() if attr.HasField("func")]
                total += ITEM_MICROSECONDS + sum(self._body(each, depth - 1) for each in called)
            self._bodies[name] = total
        return self._bodies[name]

    def _kernel(self, node: Node) -> Kernel | None:
        key = (node.op, node.output_types)
        if key not in self._kernels:
            candidates = self.kernels.candidates(node.op)
            found = next((kernel for kernel in candidates if kernel.serves(node)), None)
            self._kernels[key] = found
        return self._kernels[key]

    def _port_bytes(self, port: OutputPort, dtype: DType) -> float:
        return bytes_of(self.shapes.shape(port), dtype)

    def _stand_ins(self, node: Node) -> list[Any]:
        """Return the inputs for the kernel, without memory behind them; small constants are real."""
        assert node.op_def is not None
        values = [
            self._stand_in(port, dtype) for port, dtype in zip(node.inputs, node.input_types(), strict=True)
        ]
        grouped: list[Any] = []
        start = 0
        for arg in node.op_def.inputs:
            count = len(arg.types(node.attrs))
            part = values[start : start + count]
            grouped += [tuple(part)] if arg.is_list else part
            start += count
        return grouped

    def _stand_in(self, port: OutputPort, dtype: DType) -> Any:
        if dtype.is_integer:
            value = self.shapes.values.value(port)
            if value is not None:
                return np.asarray(value)
        return np.broadcast_to(np.zeros((), dtype.as_numpy_dtype), usual_dims(self.shapes.shape(port)))


def usual_dims(shape: TensorShape) -> tuple[int, ...]:
    """Return a shape without gaps: an unknown dimension gets its usual size."""
    if shape.dims is None:
        return (USUAL_DIMENSION,)
    return tuple(USUAL_DIMENSION if size is None else size for size in shape.dims)


def bytes_of(shape: TensorShape, dtype: DType) -> float:
    """Return the bytes of a tensor, as far as known; 0 for a handle."""
    if dtype.as_numpy_dtype.hasobject and dtype.name not in ("string", "string_ref"):
        return 0.0
    size = float(dtype.size or STRING_BYTES)
    if shape.dims is None:
        return float(USUAL_BYTES)
    for dim in shape.dims:
        size *= USUAL_DIMENSION if dim is None else dim
    return size


def _frames(graph: NodeGraph) -> Mapping[str, FramePath]:
    try:
        return assign_frames(graph)
    except OpError:
        return {}  # a malformed loop is a fault of planning, which will name it
