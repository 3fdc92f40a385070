"""Cells made of cells: stacked, with dropout, with a residual, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.client.layers.core import dropped
from flowengine.client.rnn.cell import RNNCell
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.structures import map_structure


class MultiRNNCell(RNNCell):
    """Cells one above the other: the outputs of each are the inputs of the next.

    The state is a tuple of their states; variables are in `multi_rnn_cell/cell_0/...`.
    """

    def __init__(self, cells: Sequence[RNNCell], *, name: str | None = None) -> None:
        super().__init__("multi_rnn_cell", name)
        if not cells:
            raise InvalidArgumentError("MultiRNNCell needs at least one cell")
        if len({id(cell) for cell in cells}) < len(cells):
            raise InvalidArgumentError(
                "MultiRNNCell: one cell stands in it twice; make a cell for each layer"
            )
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

    ..._keep_prob   how many elements are kept, above 0 and at most 1: numbers. Of an LSTM's state the
                    memory c is kept whole, as TensorFlow keeps it
    seed            of what is drawn, different for each place
    """

    def __init__(
        self,
        cell: RNNCell,
        *,
        input_keep_prob: float = 1.0,
        output_keep_prob: float = 1.0,
        state_keep_prob: float = 1.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(cell)
        for kept in (input_keep_prob, output_keep_prob, state_keep_prob):
            if not 0 < kept <= 1:
                raise InvalidArgumentError(
                    f"DropoutWrapper: a keep_prob is {kept}; it is above 0 and at most 1"
                )
        self._input, self._output, self._state = input_keep_prob, output_keep_prob, state_keep_prob
        self._seed = seed

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        outputs, after = self._cell(self._some(inputs, self._input, 0), state)
        if self._state < 1:
            after = self._some_of_state(after)
        return self._some(outputs, self._output, 2), after

    def _some(self, values: Any, kept: float, place: int) -> Any:
        if kept == 1:
            return values
        seed = None if self._seed is None else self._seed + place
        return map_structure(lambda value: dropped(value, 1 - kept, None, seed), values)

    def _some_of_state(self, state: Any) -> Any:
        if hasattr(state, "c") and hasattr(state, "h"):
            return type(state)(state.c, self._some(state.h, self._state, 1))
        if isinstance(state, tuple):
            return tuple(self._some_of_state(each) for each in state)
        return self._some(state, self._state, 1)


class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs; both have the same shape."""

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        outputs, after = self._cell(inputs, state)
        if not inputs.shape.is_compatible_with(outputs.shape):
            raise InvalidArgumentError(
                f"ResidualWrapper: inputs of shape {inputs.shape} do not fit outputs of {outputs.shape}"
            )
        return outputs.graph.ops.Add(outputs, inputs), after


class DeviceWrapper(_Wrapper):
    """A cell whose nodes ask for a device."""

    def __init__(self, cell: RNNCell, device: str) -> None:
        super().__init__(cell)
        self._device = device

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        with inputs.graph.device(self._device):
            return self._cell(inputs, state)
