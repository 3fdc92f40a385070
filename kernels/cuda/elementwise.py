"""Write a kernel in CUDA C for a chain of elementwise nodes.

    Mul -> Add -> Relu  ->  extern "C" __global__ void chain(const float* i0, ..., float* o0, ...)

One thread computes an element through all steps before the next one, so what lies between steps stays in
registers. Nothing here needs a GPU or a library: the description is that of `kernels/numpy/fused.py`, the
result is text. It holds only identifiers and numbers made here, so chains of one structure share one source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Final, Protocol

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.cuda.functions import C_TYPES, expression

_PRELUDE: Final = Path(__file__).with_name("sources") / "elementwise.cuh"
#: Below it places and offsets are computed in 32 bits, which a GPU does in half the time.
_NARROW_MAX: Final = 1 << 31
#: Whole: element by element as the result lies. Single: one element. Strided: all else.
WHOLE: Final = "whole"
SINGLE: Final = "single"
STRIDED: Final = "strided"


class FusedStep(Protocol):
    """A step of a chain: `kernels.numpy.fused.ChainStep` is one."""

    @property
    def node(self) -> Node:
        """The node."""

    @property
    def sources(self) -> tuple[int, ...]:
        """Numbers of inputs, or behind those of the results of earlier steps."""


@dataclass(frozen=True, slots=True)
class BroadcastGeometry:
    """How the inputs of a chain lie beside its result.

    shape      of the result, adjacent axes joined where every input allows it
    views      of each input: WHOLE, SINGLE or STRIDED
    strides    {input: elements from one to the next along each axis of `shape`}, of those that are STRIDED
    is_wide    whether places need 64 bits
    """

    shape: tuple[int, ...]
    views: tuple[str, ...]
    strides: dict[int, tuple[int, ...]]
    is_wide: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        """A kernel's last arguments: elements, the lengths of all axes but the first, strides by input."""
        if not self.strides:
            return (prod(self.shape),)
        return (prod(self.shape), *self.shape[1:], *(s for each in self.strides.values() for s in each))


def geometry(
    shape: Sequence[int], inputs: Sequence[Sequence[int]], strides: Sequence[Sequence[int] | None] = ()
) -> BroadcastGeometry:
    """The geometry for inputs of these shapes, broadcast to `shape`.

    strides   elements from one to the next along each axis of an input; None, or none, for arrays that lie
              row by row without gaps

    Raises InvalidArgumentError for an input that does not broadcast to the shape.
    """
    given = [*strides, *([None] * (len(inputs) - len(strides)))]
    spread = [_spread(shape, own, steps) for own, steps in zip(inputs, given, strict=True)]
    # From the last axis: one of length 1 is nothing, and two are one where one goes on behind the other.
    joined: list[int] = []
    kept: list[list[int]] = [[] for _ in inputs]
    for axis in reversed(range(len(shape))):
        length = shape[axis]
        if length == 1:
            continue
        if joined and all(s[axis] == k[0] * joined[0] for s, k in zip(spread, kept, strict=True)):
            joined[0] *= length
            continue
        joined.insert(0, length)
        for steps, own in zip(spread, kept, strict=True):
            own.insert(0, steps[axis])
    dense = _dense(joined)
    views = tuple(SINGLE if not any(steps) else WHOLE if tuple(steps) == dense else STRIDED for steps in kept)
    reach = max((sum(abs(s) * n for s, n in zip(k, joined, strict=True)) for k in kept), default=0)
    return BroadcastGeometry(
        tuple(joined) or (1,),
        views,
        {i: tuple(kept[i]) for i, view in enumerate(views) if view == STRIDED},
        max(prod(joined), reach) >= _NARROW_MAX,
    )


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _spread(shape: Sequence[int], own: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    """The strides of an input along the axes of what it is broadcast to: 0 where it is repeated."""
    missing = len(shape) - len(own)
    if missing < 0 or any(n not in (1, m) for n, m in zip(own, shape[missing:], strict=True)):
        raise InvalidArgumentError(f"an input of shape {list(own)} does not broadcast to {list(shape)}")
    steps = _dense(own) if strides is None else strides
    return [0] * missing + [0 if n == 1 else s for n, s in zip(own, steps, strict=True)]


@dataclass(frozen=True, slots=True)
class ElementwiseSource:
    """A kernel as text.

    name      of its function, which equal sources share
    text      the source, to be compiled behind `prelude()`
    refuses   whether it takes the address of an error record before its numbers: (code, step, place), of
              int64, all 0 as long as nothing was refused; codes are those of `functions.REFUSALS`
    """

    name: str
    text: str
    refuses: bool


@lru_cache(maxsize=1)
def prelude() -> str:
    """Return the source text that precedes the kernels of a module, once."""
    return _PRELUDE.read_text()


def write(
    steps: Sequence[FusedStep],
    inputs: Sequence[DType],
    shape: BroadcastGeometry,
    outputs: Sequence[int] | None = None,
) -> ElementwiseSource:
    """The kernel of a chain.

    inputs    the element types of the chain's inputs
    outputs   the steps whose results are wanted, each in an array of the chain's shape; None: the last one's

    Its arguments: the addresses of the inputs and of the results, of the error record if it refuses, and
    `shape.numbers`, of 64 bits if the geometry is wide, else of 32. Any number of blocks of any size will do.
    A result may lie where an input that is whole lies. Raises InvalidArgumentError for a node that has no
    expression.
    """
    wanted = [len(steps) - 1] if outputs is None else list(outputs)
    index, signed = ("u64", "i64") if shape.is_wide else ("u32", "int")
    types = [*inputs]
    names = [f"x{i}" for i in range(len(inputs))]
    body: list[str] = []
    refuses = False
    for number, step in enumerate(steps):
        found = expression(step.node)
        if found is None:
            raise InvalidArgumentError(f"{step.node.op} '{step.node.name}' has no expression in CUDA C")
        refuses = refuses or found.refusal > 0
        types.append(step.node.output_types[0].base)
        names.append(f"t{number}")
        text = found.text([names[source] for source in step.sources], number)
        body.append(f"const {C_TYPES[types[-1]]} t{number} = {text};")
    parameters = [f"const {C_TYPES[dtype]}* i{i}" for i, dtype in enumerate(inputs)]
    parameters += [f"{C_TYPES[types[len(inputs) + n]]}* o{k}" for k, n in enumerate(wanted)]
    if refuses:
        parameters.append("i64* error")
    parameters.append(f"{index} count")
    if shape.strides:
        parameters += [f"{index} d{axis}" for axis in range(1, len(shape.shape))]
        parameters += [f"{signed} s{i}_{axis}" for i in shape.strides for axis in range(len(shape.shape))]
    lines = [
        *_places(shape, index, signed),
        *(f"const {C_TYPES[d]} x{i} = i{i}[{_place(i, shape)}];" for i, d in enumerate(inputs)),
        *body,
        *(f"o{k}[place] = t{n};" for k, n in enumerate(wanted)),
    ]
    signature = ", ".join(parameters)
    loop = (
        f"  const {index} stride = ({index})blockDim.x * gridDim.x;\n"
        f"  {index} place = ({index})blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  for (; place < count; place += stride) {\n"
        + "".join(f"    {line}\n" for line in lines)
        + "  }\n}\n"
    )
    name = f"chain_{sha256((signature + loop).encode()).hexdigest()[:16]}"
    return ElementwiseSource(name, f'extern "C" __global__ void {name}({signature}) {{\n{loop}', refuses)


def _places(shape: BroadcastGeometry, index: str, signed: str) -> list[str]:
    """The lines that make coordinates of a place, where an input wants them."""
    if not shape.strides:
        return []
    inner = reversed(range(1, len(shape.shape)))
    return [
        f"{index} rest = place;",
        *(f"const {signed} c{axis} = ({signed})(rest % d{axis}); rest /= d{axis};" for axis in inner),
        f"const {signed} c0 = ({signed})rest;",
    ]


def _place(number: int, shape: BroadcastGeometry) -> str:
    view = shape.views[number]
    if view == WHOLE:
        return "place"
    if view == SINGLE:
        return "0"
    return " + ".join(f"c{axis} * s{number}_{axis}" for axis in range(len(shape.shape)))


__all__ = ["BroadcastGeometry", "ElementwiseSource", "FusedStep", "geometry", "prelude", "write"]
