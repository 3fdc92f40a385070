"""Recurrent cells: `cell(inputs, state) -> (outputs, state)`, each with its own variables.

A cell makes its variables in the graph of its first call, and uses them again in every other: one object is
one set of weights. Their names follow the variable scope of the first call: `rnn/lstm_cell/kernel` within
`dynamic_rnn`. Values are read outside of the loop that a call may stand in, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert, graph_of, stands_for_tensor
from flowengine.graphs.errors import ConstructionTypeError
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.structures import flatten, map_structure
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import VariableScope


class RNNCell(ABC):
    """A recurrent cell.

    inputs    (N, I), I known, or a structure of such where the cell takes one
    state     a structure as `state_size`, of tensors (N, size)
    outputs   (N, output_size)

    All of one type of floats. Raises InvalidArgumentError for inputs that do not fit, and in a second graph.

    >>> graph = fe.Graph()
    >>> cell = fe.rnn.GRUCell(4)
    >>> outputs, state = cell(graph.placeholder("float32", [2, 3]), cell.zero_state(graph, 2))
    >>> outputs.shape
    TensorShape([2, 4])
    """

    def __init__(self, default_name: str, name: str | None) -> None:
        self._default_name, self._name = default_name, name
        self._graph: Graph | None = None
        self._scope: VariableScope | None = None
        self._variables: dict[str, Any] = {}

    @property
    @abstractmethod
    def state_size(self) -> Any:
        """The size of the state, or a structure of sizes: numbers, or shapes without the batch."""

    @property
    @abstractmethod
    def output_size(self) -> Any:
        """The size of the outputs, as `state_size`."""

    @abstractmethod
    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the step, within the scope of the cell."""

    def __call__(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """(outputs, next state) of one step."""
        graph = graph_of(*flatten(inputs), *flatten(state))
        if self._graph is None:
            self._graph = graph
        if self._graph is not graph:
            raise InvalidArgumentError(
                f"{type(self).__name__} has its variables in another graph: make a new cell for this one"
            )
        if self._scope is None:
            with graph.variable_scope(self._name, default_name=self._default_name) as scope:
                self._scope = scope
                return self.call(graph, inputs, state)
        with (
            graph.variable_scope(self._scope, reuse="auto", auxiliary_name_scope=False),
            graph.name_scope(self._scope.name.rpartition("/")[2] or None),
        ):
            return self.call(graph, inputs, state)

    def zero_state(self, graph: Graph, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return a state of zeros: tensors (batch_size, size) of dtype in a structure as `state_size`.

        graph        of the tensors, as the cell has none before its first call
        batch_size   a number, or an int32 scalar Tensor

        Raises InvalidArgumentError, also a TypeError, for another graph or batch size, as where the graph is
        left out.

            state = cell.zero_state(graph, 32, "float32")
        """
        check_zero_state(graph, batch_size)
        kind = as_dtype(dtype)
        with graph.name_scope(f"{type(self).__name__}ZeroState"):
            return map_structure(lambda size: zeros_of(graph, batch_size, size, kind), self.state_size)

    def _weight(self, name: str, shape: Sequence[int], dtype: DType, initializer: Any = None) -> Tensor:
        """Return a variable of the cell, read outside of loops, so that a loop uses one value."""
        assert self._graph is not None
        assert self._scope is not None
        variable = self._variables.get(name)
        if variable is None:
            # The full scope's name may be that of a part of this cell, such as `gates`.
            variable = self._graph.get_variable(name, shape, dtype=dtype, initializer=initializer)
            self._variables[name] = variable
        with self._graph.scopes.outside():
            return convert(self._graph, getattr(variable, "snapshot", variable))


def check_zero_state(graph: Any, batch_size: Any) -> None:
    """Check the arguments of `zero_state`; ConstructionTypeError with the call to write."""
    need_graph(graph, 'cell.zero_state(graph, batch_size, dtype="float32")')
    is_number = isinstance(batch_size, int | np.integer) and not isinstance(batch_size, bool)
    if not is_number and not stands_for_tensor(batch_size):
        raise ConstructionTypeError(
            f"zero_state: batch_size is {batch_size!r:.80}; it must be a number or an int32 scalar Tensor"
        )


def zeros_of(graph: Graph, batch_size: Any, size: Any, dtype: DType) -> Tensor:
    """Zeros (batch_size, *size)."""
    dims = [size] if isinstance(size, int) else TensorShape(size).as_list()
    known = batch_size if isinstance(batch_size, int) else None
    if isinstance(batch_size, Tensor):
        value = graph.constant_value(batch_size)
        known = None if value is None else int(value)
    if known is not None:
        return graph.constant(0, dtype, [known, *dims], name="zeros")
    zero = graph.constant(0, dtype)
    result: Tensor = graph.ops.Fill(graph.ops.Pack([batch_size, *dims]), zero, name="zeros")
    return result


def depth(what: str, inputs: Tensor) -> int:
    """The known last axis of the inputs of a cell."""
    size = inputs.shape[-1] if inputs.shape.dims else None
    if size is None or inputs.shape.rank != 2:
        raise InvalidArgumentError(
            f"{what}: inputs '{inputs.name}' of shape {inputs.shape} must have two axes, the last one known"
        )
    return size
