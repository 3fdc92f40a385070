"""Chains of elementwise nodes as generated CUDA C: `kernels/cuda/elementwise.py`.

A node by itself is computed by the same expression where libraries differ in the last bits
(`overrides/elementwise.py`), so a chain has the bits of its nodes. What is launched depends on how the
inputs lie beside the result; there is a kernel for each such way, and none for each shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from flowengine.core.dtypes import as_dtype, bfloat16
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.kernels.common.launched_chains import LaunchedStep
from flowengine.kernels.cuda.elementwise import FusedStep, geometry, write
from flowengine.kernels.cuda.functions import C_TYPES, expression
from flowengine.kernels.cuda.launching import THREADS, over
from flowengine.kernels.cuda.serving import is_compiled_here
from flowengine.kernels.cuda.session_launcher import CardFunction, CardModules, address_of, modules_of
from flowengine.kernels.provider import located

#: Ops whose inputs broadcast; those of all others have one shape, but for a bias.
_BROADCASTING: Final = frozenset(
    {
        *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "SquaredDifference"),
        *("DivNoNan", "MulNoNan", "Atan2", "Xlogy", "Xlog1py", "Xdivy", "Mod", "FloorMod", "FloorDiv"),
        *("TruncateDiv", "TruncateMod", "Pow", "SelectV2"),
        *("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr"),
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"),
    }
)
_BIASES: Final = frozenset({"BiasAdd", "BiasAddV1"})
_OTHER_SHAPES: Final = frozenset({"ClipByValue", "Select"})
#: Types that CuPy's arrays have and CUDA C has a name for.
HELD: Final = frozenset(C_TYPES) - {bfloat16}
#: Shapes of inputs whose launches are kept; one more, and all are worked out anew.
_KEPT_MAX: Final = 64


def takes_as_step(node: Node) -> bool:
    """Whether CUDA C has an expression for a node, it refuses nothing, and inputs are of shapes as above.

    Of all others the node's kernel over CuPy's arrays has the rules.
    """
    if node.op in _OTHER_SHAPES or not node.attrs.get("incompatible_shape_error", True):
        return False
    found = expression(node)
    return found is not None and not found.refusal


class CardChains:
    """Keeps `flowengine.kernels.common.launched_chains.ChainLauncher`."""

    def takes(self, node: Node) -> bool:
        """Whether a node can be a step."""
        return (
            is_compiled_here()
            and takes_as_step(node)
            and all(dtype.base in HELD for dtype in (*node.input_types(), *node.output_types))
        )

    def launching(self, device: Device, steps: Sequence[LaunchedStep]) -> Callable[..., Any]:
        """Return the function that computes the steps as one launch; see `ChainLauncher`."""
        assert isinstance(device, CudaDevice)
        return CardChain(modules_of(device), steps, partial(_wrong, device.xp, steps)).run


def _wrong(xp: Any, steps: Sequence[LaunchedStep], inputs: Sequence[Any]) -> OpError:
    """Return the error of the steps' kernels over CuPy's arrays, for inputs that do not fit."""
    known = list(inputs)
    for step in steps:
        taken = [known[i] for i in step.sources]
        function = step.kernel.over(xp).bind(step.node)
        try:
            known.append(function(tuple(taken)) if step.node.op == "AddN" else function(*taken))
        except OpError as error:
            return located(error, step.node)
        except ValueError as error:
            return located(unlike(taken, str(error)), step.node)
    return unlike(inputs, "its nodes take them")


def unlike(inputs: Sequence[Any], why: str) -> OpError:
    """The error of shapes that do not belong together."""
    shapes = " vs. ".join(str(list(value.shape)).replace(" ", "") for value in inputs)
    return InvalidArgumentError(f"Incompatible shapes: {shapes} ({why})")


class _ChainLaunch(NamedTuple):
    """A chain over inputs of certain shapes: the shape of the result, and what is launched for it."""

    shape: tuple[int, ...]
    function: CardFunction | None
    blocks: int
    numbers: tuple[Any, ...]


#: (inputs of the chain) -> the error of those that do not fit, which its nodes' own kernels have words for
ErrorOf: TypeAlias = Callable[[Sequence[Any]], OpError]


class CardChain:
    """A chain of one device; called on one thread at a time."""

    def __init__(self, modules: CardModules, steps: Sequence[FusedStep], error: ErrorOf) -> None:
        self._modules = modules
        self._steps = tuple(steps)
        self._error = error
        last = steps[-1].node
        self._dtype = last.output_types[0].as_numpy_dtype
        #: {shapes of the inputs: the launch}
        self._launches: dict[tuple[tuple[int, ...], ...], _ChainLaunch] = {}

    def run(self, inputs: Sequence[Any]) -> Any:
        """The last step's result for arrays of the device. An error of shapes is the step's."""
        shapes = tuple([value.shape for value in inputs])
        launch = self._launches.get(shapes) or self._new_launch(shapes, inputs)
        xp = self._modules.device.xp
        result = xp.empty(launch.shape, self._dtype)
        if launch.function is not None:
            given = [v if v.flags.c_contiguous else xp.ascontiguousarray(v) for v in inputs]
            addresses = [value.data.ptr for value in given]
            launch.function((launch.blocks,), (THREADS,), (*addresses, address_of(result), *launch.numbers))
        return result

    def _new_launch(self, shapes: tuple[tuple[int, ...], ...], inputs: Sequence[Any]) -> _ChainLaunch:
        shape = self._shape(shapes)
        if shape is None:
            raise self._error(inputs)
        if len(self._launches) >= _KEPT_MAX:
            self._launches.clear()
        count = math.prod(shape)
        if not count:
            made = _ChainLaunch(shape, None, 0, ())
        else:
            lying = geometry(shape, shapes)
            types = [as_dtype(value.dtype) for value in inputs]
            source = write(self._steps, types, lying)
            # A kernel takes what it counts with in 32 bits where that is enough.
            kind = np.int64 if lying.is_wide else np.int32
            blocks = over(source.name, count).blocks
            numbers = tuple(map(kind, lying.numbers))
            made = _ChainLaunch(shape, self._modules.chain(source), blocks, numbers)
        self._launches[shapes] = made
        return made

    def _shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
        """The shape of the result; None where a step refuses those of its inputs."""
        known = list(shapes)
        for step in self._steps:
            given = [known[i] for i in step.sources]
            op = step.node.op
            if op in _BROADCASTING:
                try:
                    known.append(np.broadcast_shapes(*given))
                except ValueError:
                    return None
                continue
            if op in _BIASES:
                if len(given[0]) < 2 or given[1] != given[0][-1:]:
                    return None
            elif any(shape != given[0] for shape in given):
                return None
            known.append(given[0])
        # The result is as large as what it is made of: no step's is broadcast away.
        return known[-1]

    def __repr__(self) -> str:
        return " -> ".join(step.node.op for step in self._steps)


__all__ = ["HELD", "CardChain", "CardChains", "ErrorOf", "takes_as_step", "unlike"]
