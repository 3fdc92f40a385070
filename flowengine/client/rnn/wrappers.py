"""Cells made of cells: stacked, with dropout, with a residual, on a device."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import md5
from typing import Any

from flowengine.client.layers.core import dropped
from flowengine.client.rnn.cell import RNNCell
from flowengine.client.rnn.cells import LSTMStateTuple
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.functions.random import random_uniform
from flowengine.graphs.graph import Graph
from flowengine.graphs.structures import flatten, pack_like
from flowengine.graphs.tensor import Tensor


class MultiRNNCell(RNNCell):
    """Cells one above the other: the outputs of each are the inputs of the next.

    The state is a tuple of their states; variables are in `multi_rnn_cell/cell_0/...`.

    Inputs (N, I) of floats. Raises InvalidArgumentError without cells, or with one of them twice.
    """

    def __init__(self, cells: Sequence[RNNCell], *, name: str | None = None) -> None:
        super().__init__("multi_rnn_cell", name)
        if not cells:
            raise InvalidArgumentError("MultiRNNCell needs at least one cell")
        if len({id(cell) for cell in cells}) < len(cells):
            raise InvalidArgumentError("MultiRNNCell: one cell is given twice: make a cell for each layer")
        self._cells = tuple(cells)

    @property
    def state_size(self) -> tuple[Any, ...]:
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Any, Any]:
        if len(state) != len(self._cells):
            raise InvalidArgumentError(
                f"MultiRNNCell of {len(self._cells)} cells is given {len(state)} states"
            )
        states = []
        for number, (cell, before) in enumerate(zip(self._cells, state, strict=True)):
            with graph.variable_scope(f"cell_{number}"):
                inputs, after = cell(inputs, before)
            states.append(after)
        return inputs, tuple(states)


class _Wrapper(RNNCell):
    """A cell around another: its variables are in the scope of the other alone."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__("wrapper", None)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self._cell(inputs, state)

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self._cell.call(graph, inputs, state)


class DropoutWrapper(_Wrapper):
    """A cell with dropout of its inputs, its outputs and its next state.

    input_keep_prob, output_keep_prob, state_keep_prob
                            the share of elements to keep, a number above 0 and at most 1. An LSTM keeps its
                            memory c whole, as in TensorFlow
    variational_recurrent   whether a step draws once for all time steps and examples (after Gal and
                            Ghahramani 2016); sizes other than the batch must be known
    seed                    of the random choices, which are then those of TensorFlow

    Inputs, outputs and state as those of the cell. Raises InvalidArgumentError for an invalid share.
    """

    def __init__(
        self,
        cell: RNNCell,
        *,
        input_keep_prob: float = 1.0,
        output_keep_prob: float = 1.0,
        state_keep_prob: float = 1.0,
        variational_recurrent: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(cell)
        for kept in (input_keep_prob, output_keep_prob, state_keep_prob):
            if not 0 < kept <= 1:
                raise InvalidArgumentError(
                    f"DropoutWrapper: a keep_prob is {kept}: it must be above 0 and at most 1"
                )
        self._kept = {"input": input_keep_prob, "state": state_keep_prob, "output": output_keep_prob}
        self._draws_once, self._seed = variational_recurrent, seed
        #: {(place, number): its random tensor}
        self._drawn: dict[tuple[str, int], Tensor] = {}

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        outputs, after = self._cell(self._some("input", inputs), state)
        return self._some("output", outputs), self._some("state", after, _memories(after))

    def _some(self, place: str, values: Any, spared: Collection[int] = ()) -> Any:
        """Values with elements dropped, but those of these numbers."""
        if self._kept[place] == 1:
            return values
        leaves = [
            each if number in spared else self._dropped(place, number, each)
            for number, each in enumerate(flatten(values))
        ]
        return pack_like(values, leaves)

    def _dropped(self, place: str, number: int, value: Tensor) -> Tensor:
        kept = self._kept[place]
        if not self._draws_once:
            return dropped(value, 1 - kept, None, self._seed_of(place, number))
        drawn = self._drawn.get((place, number))
        ops = value.graph.ops
        if drawn is None:
            sizes = value.shape.as_list()[1:]
            if None in sizes:
                raise InvalidArgumentError(
                    f"DropoutWrapper: '{value.name}' of shape {value.shape} must have known sizes beside the "
                    "batch where a run draws once"
                )
            seed = self._seed_of(place, number)
            with value.graph.scopes.outside():
                drawn = random_uniform([1, *sizes], dtype=value.dtype.base, seed=seed, graph=value.graph)
            self._drawn[place, number] = drawn
        stays = ops.Floor(ops.Add(drawn, kept))
        result: Tensor = ops.Mul(ops.RealDiv(value, kept), stays)
        return result

    def _seed_of(self, place: str, number: int) -> int | None:
        """TensorFlow's rule: a digest of the seed and the place."""
        if self._seed is None:
            return None
        digest = md5(f"{self._seed}{place}_{number}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:8], 16) & 0x7FFFFFFF


def _memories(state: Any) -> set[int]:
    """The numbers of an LSTM's memories among the parts of a state."""
    return {number for number, is_memory in enumerate(_memory_flags(state)) if is_memory}


def _memory_flags(state: Any, is_memory: bool = False) -> Iterator[bool]:
    if not isinstance(state, tuple):
        yield is_memory
        return
    for position, each in enumerate(state):
        yield from _memory_flags(each, isinstance(state, LSTMStateTuple) and position == 0)


class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs; both have the same shape.

    Inputs (N, I) of floats. Raises InvalidArgumentError where the shapes differ.
    """

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        outputs, after = self._cell(inputs, state)
        if not inputs.shape.is_compatible_with(outputs.shape):
            raise InvalidArgumentError(
                f"ResidualWrapper: inputs of shape {inputs.shape} do not fit outputs of {outputs.shape}"
            )
        return outputs.graph.ops.Add(outputs, inputs), after


class DeviceWrapper(_Wrapper):
    """A cell whose nodes ask for a device.

    Inputs (N, I), outputs and state as those of the cell, of its types. A device that is not there is an
    InvalidArgumentError of the run.
    """

    def __init__(self, cell: RNNCell, device: str) -> None:
        super().__init__(cell)
        self._device = device

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        with inputs.graph.device(self._device):
            return self._cell(inputs, state)
