"""Elementwise chains in one pass over memory, alone or behind a product: what `claims` makes.

A chain's steps are the bound kernels of its nodes. Where its inputs are large and of one shape they are run
block by block, all steps over one block before the next, so that what lies between the steps never leaves
the cache; blocks are spread over the cores. Each step sees the values that it would have seen, so the result
is equal to the last bit. Inputs of other shapes go through the steps whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.blockwise import CLIP_MIN, LARGE
from flowengine.kernels.common.pieces import FixedMemory, Piece, Want, has_pieces, piece_of
from flowengine.kernels.member_times import MEMBER_TIMES, add_shares
from flowengine.kernels.numpy.channels import Blocks
from flowengine.kernels.provider import MemberRun, located, run_alone
from flowengine.kernels.registry import kernel

#: The estimated time of a product for executors, which makes it worth a thread.
PRODUCT_MICROSECONDS: Final = 1e4


#: Steps that take no longer than to read and to write: a core does 128 thousand elements in 15 us, before
#: another one that is asked to help is awake.
_QUICK: Final = frozenset(
    {
        *("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "BiasAdd", "BiasAddV1"),
        *("Abs", "Neg", "Square", "Relu", "Relu6"),
    }
)
#: Those that are a `clip` from 0, and its upper end.
_CLIPS: Final = {"Relu": np.inf, "Relu6": 6.0}
#: Elements times quick steps from which blocks are spread over the cores; of any other step fewer are enough.
_QUICK_SPREAD_MIN: Final = 1 << 19


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One node of a chain.

    function    its bound kernel
    sources     what it takes: numbers of inputs, or behind those of the results of earlier steps
    as_list     whether it takes them as one tuple
    broadcasts  whether one of them may be a number, or a vector along the last axis, where another is whole
    adds_bias   whether it is a sum with such a vector, whatever `function` checks
    """

    node: Node
    function: Callable[..., Any]
    sources: tuple[int, ...]
    as_list: bool = False
    broadcasts: bool = False
    adds_bias: bool = False

    def run(self, values: SequenceOf[Any]) -> Any:
        """The result for whole values."""
        try:
            return self.function(*self._arguments(values))
        except OpError as error:
            raise located(error, self.node) from None

    def run_alone(self, values: SequenceOf[Any]) -> MemberRun:
        """As `run`, with what it took and what it gave."""
        return run_alone(self.node, self.function, self._arguments(values))

    def _arguments(self, values: SequenceOf[Any]) -> SequenceOf[Any]:
        arguments = [values[i] for i in self.sources]
        return (tuple(arguments),) if self.as_list else arguments


class Chain:
    """Steps after one another; the last one's result is the chain's."""

    is_one_pass: ClassVar[bool] = True

    def __init__(self, steps: SequenceOf[ChainStep], dtype: Any) -> None:
        self._steps = tuple(steps)
        self._dtype = np.dtype(dtype)
        quick = all(step.node.op in _QUICK for step in steps)
        self._spread_min = _QUICK_SPREAD_MIN // len(steps) if quick else LARGE
        #: Inputs that must be vectors, and those that must be whole.
        self._biases = {step.sources[1] for step in steps if step.adds_bias}
        self._whole = {
            i for step in steps for i in step.sources[: 1 if step.adds_bias else None] if not step.broadcasts
        }

    def __repr__(self) -> str:
        return " -> ".join(step.node.op for step in self._steps)

    @property
    def nodes(self) -> list[Node]:
        """The nodes in the order in which they run."""
        return [step.node for step in self._steps]

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(step.node.name for step in self._steps)

    def one_by_one(self, values: SequenceOf[Any]) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        known = list(values)
        for step in self._steps:
            found = step.run_alone(known)
            known.append(found.outputs[0])
            yield found

    def run(self, values: SequenceOf[Any], out: Array | None = None) -> Any:
        """The result for these inputs; in `out`, which may be one of them, where blocks are possible."""
        times = MEMBER_TIMES.get()
        if times is None:
            return self._run(values, out, None)
        shares: list[list[float]] = []
        began = perf_counter()
        made = self._run(values, out, shares)
        sums = [sum(each) for each in zip(*shares, strict=True)]
        add_shares(times, self.nodes, sums, began, perf_counter())
        return made

    def _run(self, values: SequenceOf[Any], out: Array | None, shares: list[list[float]] | None) -> Any:
        """As `run`. `shares` gets the times of the steps over each block, if there is such a list."""
        shape = self._shape(values) if _any_large(values) else None
        if shape is None:
            known = list(values)
            moments = [] if shares is None else [perf_counter()]
            for step in self._steps[:-1]:
                known.append(step.run(known))
                if shares is not None:
                    moments.append(perf_counter())
            made = self._ends(known, out)
            if shares is not None:
                shares.append(_between([*moments, perf_counter()]))
            return made
        if out is None or out.dtype != self._dtype or out.shape != shape or not out.flags.writeable:
            out = np.empty(shape, self._dtype)
        vectors = [i for i, v in enumerate(values) if v.ndim == 1 and v.shape != shape]
        rows, width = (out.size // shape[-1], shape[-1]) if vectors else (out.size, 1)
        blocks = Blocks(rows, width, self._spread_min)
        tables = [v.reshape(-1, width) if v.shape == shape else None for v in values]
        repeated = {i: blocks.vector(values[i]) for i in vectors}
        target = out.reshape(-1, width)

        def work(_: int, part: slice, repeat: int) -> None:
            known: list[Any] = []
            for i, value in enumerate(values):
                table = tables[i]
                if table is not None:
                    known.append(blocks.long(table, part, repeat))
                else:
                    known.append(repeated[i][repeat] if i in repeated else value)
            moments = [] if shares is None else [perf_counter()]
            for step in self._steps[:-1]:
                known.append(_of_block(step, known))
                if shares is not None:
                    moments.append(perf_counter())
            last, place = self._steps[-1], blocks.long(target, part, repeat)
            function = np.add if last.adds_bias else last.function
            if _is_clip(last):
                _clip(last, known[last.sources[0]], place)
            elif isinstance(function, np.ufunc):
                function(*[known[i] for i in last.sources], out=place)
            else:
                place[...] = last.run(known)
            if shares is not None:
                shares.append(_between([*moments, perf_counter()]))

        blocks.run(work)
        return out

    def _ends(self, known: SequenceOf[Any], out: Array | None) -> Any:
        """Return the last step's result, in `out` if that is the array being clipped."""
        last = self._steps[-1]
        if out is None or not _is_clip(last) or known[last.sources[0]] is not out:
            return last.run(known)
        return _clip(last, out, out) if out.size >= CLIP_MIN and out.flags.writeable else last.run(known)

    def _shape(self, values: SequenceOf[Any]) -> tuple[int, ...] | None:
        """The shape of the whole inputs, of which one is large; None where blocks are not possible."""
        largest: Any = max(values, key=lambda v: v.size)
        shape: tuple[int, ...] = largest.shape
        whole = []
        for i, value in enumerate(values):
            whole.append(value.shape == shape)
            if whole[i]:
                if not value.flags.c_contiguous or i in self._biases:
                    return None
            elif i in self._whole or not self._may_broadcast(value, i in self._biases, shape):
                return None
        for step in self._steps:
            # What is made of numbers and vectors alone would not be whole.
            if not any(whole[i] for i in step.sources):
                return None
            whole.append(True)
        return shape

    @staticmethod
    def _may_broadcast(value: Any, is_bias: bool, shape: tuple[int, ...]) -> bool:
        if value.ndim == 0:
            return not is_bias
        return value.ndim == 1 and len(shape) > 1 and value.shape == shape[-1:]


def _between(moments: SequenceOf[float]) -> list[float]:
    """Return the times between moments that follow each other."""
    return [until - since for since, until in pairwise(moments)]


def _any_large(values: SequenceOf[Any]) -> bool:
    """Whether blocks could pay for one of them."""
    return any(value.size >= LARGE for value in values)


def _is_clip(step: ChainStep) -> bool:
    return step.node.op in _CLIPS


def _clip(step: ChainStep, x: Array, out: Array) -> Array:
    """Clip this many elements as the step's kernel does, in `out`."""
    number = x.dtype.type
    return np.clip(x, number(0), number(_CLIPS[step.node.op]), out)


def _of_block(step: ChainStep, known: SequenceOf[Any]) -> Any:
    if step.adds_bias:
        return np.add(known[step.sources[0]], known[step.sources[1]])
    return step.run(known)


#: A node and which of its inputs is the result of the one before it.
Follower: TypeAlias = tuple[Node, int]


class EpilogueKernel(Protocol):
    """A product's kernel that can compute what follows it as well."""

    def absorb(
        self, followers: SequenceOf[Follower], variables: Collection[int] = ()
    ) -> tuple[int, Callable[..., Any]] | None:
        """(how many of them, what computes all), None for none.

        variables   places of the product's inputs that are the values of variables, as these hold them: who
                    refers to one keeps it from changing

        It is called with the product's inputs and the other inputs of each follower that is absorbed, in
        order, and returns None where these values have to go through the nodes one by one.
        """


class Contraction:
    """A product, perhaps a normalisation, and a chain that works in place on what they have made."""

    is_one_pass: ClassVar[bool] = True

    def __init__(self, steps: SequenceOf[ChainStep], chain: Chain | None, sources: SequenceOf[int]) -> None:
        """
        steps     product and normalisation: each gives its first result to those behind it
        chain     what follows, with the numbers of what it takes: results are counted behind the inputs
        """
        self._steps = tuple(steps)
        self._chain = chain
        self._sources = tuple(sources)
        self._whole: ChainStep | None = None
        self._rest: Contraction | None = None

    def absorb(self, whole: ChainStep, rest: Contraction | None) -> None:
        """Let one call compute the first steps, where it can, and `rest` what is left of the chain.

        The rest takes the inputs and then the result.
        """
        self._whole, self._rest = whole, rest

    def __repr__(self) -> str:
        names = [step.node.op for step in self._steps]
        return " -> ".join(names if self._chain is None else [*names, repr(self._chain)])

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        own = frozenset(step.node.name for step in self._steps)
        return own if self._chain is None else own | self._chain.names

    @property
    def piece(self) -> Callable[..., Piece | None] | None:
        """See `pieces`; None unless one call computes all of it."""
        whole = self._whole
        return (
            None if whole is None or self._rest is not None or not has_pieces(whole.function) else self._piece
        )

    def _piece(self, *values: Any) -> Piece | None:
        whole = self._whole
        found = None if whole is None else piece_of(whole.function, [values[i] for i in whole.sources])
        if whole is None or found is None:
            return None
        wants: list[Want] = [None] * len(values)
        for number, want in zip(whole.sources, found.wants, strict=True):
            if wants[number] is None:
                wants[number] = want
            elif want is not None and type(want) is not type(wants[number]):
                return None
        calls = [
            (program, tuple(s if isinstance(s, FixedMemory) or s < 0 else whole.sources[s] for s in sources))
            for program, sources in found.calls
        ]
        return replace(found, calls=tuple(calls), wants=tuple(wants))

    @property
    def _nodes(self) -> list[Node]:
        """The nodes in the order in which they run."""
        own = [step.node for step in self._steps]
        return own if self._chain is None else own + self._chain.nodes

    def one_by_one(self, values: SequenceOf[Any]) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        known = list(values)
        for step in self._steps:
            found = step.run_alone(known)
            known.append(found.outputs[0])
            yield found
        if self._chain is not None:
            yield from self._chain.one_by_one([known[i] for i in self._sources])

    def run(self, values: SequenceOf[Any]) -> Any:
        times = MEMBER_TIMES.get()
        known = list(values)
        began = 0.0 if times is None else perf_counter()
        if self._whole is not None:
            made = self._whole.run(known)
            if made is not None:
                if times is not None:
                    rest = self._rest.names if self._rest is not None else frozenset[str]()
                    nodes = tuple([node for node in self._nodes if node.name not in rest])
                    times.append((nodes, began, perf_counter()))
                return made if self._rest is None else self._rest.run([*known, made])
        for step in self._steps:
            made = step.run(known)
            known.append(made[0] if isinstance(made, tuple) else made)
            if times is not None:
                now = perf_counter()
                times.append(((step.node,), began, now))
                began = now
        if self._chain is None:
            return known[-1]
        return self._chain.run([known[i] for i in self._sources], known[-1])


@kernel("_FusedElementwise", device=None, fresh=True)
def fused_elementwise(inputs: tuple[Any, ...], *, node: Node) -> Any:
    """Compute a chain of elementwise nodes: see `kernels/numpy/claims/chains.py`.

    See `kernels/common/launched_chains.py` for other devices.
    """
    return node.attrs["program"].run(inputs)


@kernel("_FusedContraction", fresh=True, heavy=lambda inputs: PRODUCT_MICROSECONDS)
def fused_contraction(inputs: tuple[Any, ...], *, node: Node) -> Any:
    """Compute a product and the elementwise nodes behind it.

    See `kernels/numpy/claims/contractions.py`.
    """
    return node.attrs["program"].run(inputs)
