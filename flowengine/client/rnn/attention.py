"""Attention of a decoder: each step compares its state with a memory, such as the outputs of an encoder.

attention = fe.rnn.LuongAttention(128, encoder_outputs, lengths)
cell = fe.rnn.AttentionWrapper(fe.rnn.LSTMCell(128), attention, attention_layer_size=128)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from flowengine.client.layers.core import dense
from flowengine.client.rnn.cell import RNNCell, check_zero_state
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.activations import softmax
from flowengine.graphs.functions.indexing import sequence_mask
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers


class AttentionMechanism(ABC):
    """A memory, with scores of how well a query fits each of its places.

    units                    of the keys, which are computed from the memory
    memory                   (N, S, M), M known; the context is a weighted sum of its rows
    memory_sequence_length   (N,), at least 1 each: places beyond it are ignored; None for all of S

    The mechanism computes the keys when it is made: `memory_layer/kernel` (M, units) in the variable scope
    there.

    Memory and queries (N, Q) of one type of floats. Raises InvalidArgumentError if M or Q is not known, or
    they do not fit.

    >>> graph = fe.Graph()
    >>> mechanism = fe.rnn.LuongAttention(4, fe.ones([2, 5, 3], graph=graph))
    >>> def weight(name, shape, dtype, initializer=None):  # LuongAttention has no variable without `scale`
    ...     return graph.get_variable(name, shape, dtype=dtype, initializer=initializer).value()
    >>> query = fe.ones([2, 4], graph=graph)
    >>> mechanism.score(query, weight).shape, mechanism.alignments(query, weight).shape
    (TensorShape([2, 5]), TensorShape([2, 5]))
    """

    #: The name of the scope of its variables, within that of the cell.
    scope_name: str

    def __init__(self, units: int, memory: Any, memory_sequence_length: Any = None) -> None:
        graph = graph_of(memory)
        self.graph, self.units = graph, units
        values = convert(graph, memory)
        if values.shape.rank != 3 or values.shape[2] is None:
            raise InvalidArgumentError(
                f"attention: memory '{values.name}' of shape {values.shape} must be (N, S, M) with M known"
            )
        self._seen: Tensor | None = None
        if memory_sequence_length is not None:
            with graph.name_scope("memory"):
                size = graph.ops.GatherV2(graph.ops.Shape(values), 1, 0)
                self._seen = sequence_mask(convert(graph, memory_sequence_length), size)
                mask = graph.ops.Cast(self._seen, DstT=values.dtype.base)
                values = graph.ops.Mul(values, graph.ops.ExpandDims(mask, -1))
        self.values = values
        self.keys = dense(values, units, use_bias=False, name="memory_layer")

    def alignments(self, query: Tensor, weight: Callable[..., Tensor]) -> Tensor:
        """Return the weight of each place of the memory: (N, Q) -> (N, S), which sums to 1.

        weight   makes a variable in the scope of the cell: weight(name, shape, dtype, initializer)
        """
        score = self.score(query, weight)
        if self._seen is not None:
            low = self.graph.constant(float("-inf"), score.dtype.base)
            score = self.graph.ops.SelectV2(self._seen, score, low)
        return softmax(score)

    @abstractmethod
    def score(self, query: Tensor, weight: Callable[..., Tensor]) -> Tensor:
        """Return how well a query (N, Q) fits each key: (N, S). `weight` is that of `alignments`."""


class LuongAttention(AttentionMechanism):
    """Attention by the product of query and key (Luong et al. 2015), times `attention_g` with `scale`.

    Memory and queries (N, Q) of one type of floats. Raises InvalidArgumentError if M or Q is not known, or
    they do not fit.
    """

    scope_name = "luong_attention"

    def __init__(
        self, units: int, memory: Any, memory_sequence_length: Any = None, *, scale: bool = False
    ) -> None:
        super().__init__(units, memory, memory_sequence_length)
        self._scale = scale

    def score(self, query: Tensor, weight: Callable[..., Tensor]) -> Tensor:
        ops = self.graph.ops
        if query.shape[-1] != self.units:
            raise InvalidArgumentError(
                f"LuongAttention: the query has {query.shape[-1]} units, the keys have {self.units}"
            )
        found: Tensor = ops.Squeeze(
            ops.BatchMatMulV2(ops.ExpandDims(query, 1), self.keys, adj_y=True), squeeze_dims=[1]
        )
        if self._scale:
            found = ops.Mul(weight("attention_g", [], query.dtype.base, initializers.ones()), found)
        return found


class BahdanauAttention(AttentionMechanism):
    """Attention by `sum(v * tanh(key + query @ query_layer/kernel))` (Bahdanau, Cho and Bengio 2015).

    normalize   v is `attention_g` times a vector of length 1, and `attention_b` is added (Salimans and Kingma
                2016)

    Memory and queries (N, Q) of one type of floats. Raises InvalidArgumentError if M or Q is not known, or
    they do not fit.
    """

    scope_name = "bahdanau_attention"

    def __init__(
        self, units: int, memory: Any, memory_sequence_length: Any = None, *, normalize: bool = False
    ) -> None:
        super().__init__(units, memory, memory_sequence_length)
        self._normalize = normalize

    def score(self, query: Tensor, weight: Callable[..., Tensor]) -> Tensor:
        ops, dtype = self.graph.ops, query.dtype.base
        kernel = weight("query_layer/kernel", [query.shape[-1], self.units], dtype)
        asked = ops.ExpandDims(ops.MatMul(query, kernel), 1)
        factor = weight("attention_v", [self.units], dtype)
        total = ops.Add(self.keys, asked)
        if self._normalize:
            root = initializers.constant(self.units**-0.5)
            gain = weight("attention_g", [], dtype, root)
            total = ops.Add(total, weight("attention_b", [self.units], dtype, initializers.zeros()))
            length = ops.Rsqrt(ops.Sum(ops.Mul(factor, factor), [0]))
            factor = ops.Mul(ops.Mul(gain, factor), length)
        result: Tensor = ops.Sum(ops.Mul(factor, ops.Tanh(total)), [2])
        return result


class AlignmentHistory(NamedTuple):
    """The alignments of all steps so far: their number `steps`, () int32, and an `array` of them.

    >>> graph = fe.Graph()
    >>> array = graph.tensor_array("float32", 0, dynamic_size=True, element_shape=[2, 5])
    >>> history = fe.rnn.AlignmentHistory(graph.constant(0), array)
    >>> history.after(fe.ones([2, 5], graph=graph)).stack().shape
    TensorShape([None, 2, 5])
    """

    steps: Any
    array: Any

    def stack(self) -> Tensor:
        """Return all of them: (T, N, S)."""
        found: Tensor = self.array.stack()
        return found

    def after(self, alignments: Tensor) -> AlignmentHistory:
        """Return the history with the `alignments` of one more step."""
        steps = self.steps.graph.ops.Add(self.steps, 1)
        return AlignmentHistory(steps, self.array.write(self.steps, alignments))


class AttentionState(NamedTuple):
    """The state of an `AttentionWrapper`.

    cell_state          the state of the wrapped cell
    attention           the last attention, (N, A)
    alignments          the last alignments, (N, S)
    alignment_history   an `AlignmentHistory` if the wrapper keeps one, else ()

    >>> graph = fe.Graph()
    >>> mechanism = fe.rnn.LuongAttention(4, fe.ones([2, 5, 3], graph=graph))
    >>> state = fe.rnn.AttentionWrapper(fe.rnn.GRUCell(4), mechanism).zero_state(graph, 2)
    >>> isinstance(state, fe.rnn.AttentionState), state.cell_state.shape, state.alignments.shape
    (True, TensorShape([2, 4]), TensorShape([2, 5]))
    """

    cell_state: Any
    attention: Any
    alignments: Any
    alignment_history: Any = ()


def attention_states(state: Any) -> list[AttentionState]:
    """Return the attention states in a state of any structure, from left to right."""
    if isinstance(state, AttentionState):
        return [state]
    return [found for each in state for found in attention_states(each)] if isinstance(state, tuple) else []


class AttentionWrapper(RNNCell):
    """A cell with attention: its inputs are joined with the last attention, and each step computes the next.

    attention_layer_size   of `attention_layer/kernel`, which projects output and context; None uses the
                           context itself as attention
    output_attention       whether the outputs are the attention, or those of the cell
    alignment_history      whether the state keeps the alignments of all steps, for decoders: after
                           `dynamic_decode`, `state.alignment_history.stack()` is (T, N, S)

    The state is an `AttentionState`; variables are in `attention_wrapper/...`.

    Inputs (N, I) of floats, of the type of the memory. Raises InvalidArgumentError if their shapes do not
    fit. Luong, Pham, Manning 2015.

    >>> graph = fe.Graph()
    >>> mechanism = fe.rnn.LuongAttention(4, fe.ones([2, 5, 3], graph=graph))
    >>> cell = fe.rnn.AttentionWrapper(fe.rnn.GRUCell(4), mechanism)
    >>> state = cell.starting_from(cell.zero_state(graph, 2), fe.ones([2, 4], graph=graph))
    >>> outputs, after = cell(fe.ones([2, 3], graph=graph), state)  # which calls `cell.call`
    >>> outputs.shape
    TensorShape([2, 3])
    """

    def __init__(
        self,
        cell: RNNCell,
        mechanism: AttentionMechanism,
        *,
        attention_layer_size: int | None = None,
        output_attention: bool = True,
        alignment_history: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__("attention_wrapper", name)
        self._keeps_history = alignment_history
        self._cell, self._mechanism = cell, mechanism
        self._size, self._output_attention = attention_layer_size, output_attention

    @property
    def attention_size(self) -> int:
        """The size A of the attention."""
        return self._size if self._size is not None else int(self._mechanism.values.shape[2] or 0)

    @property
    def state_size(self) -> AttentionState:
        return AttentionState(
            self._cell.state_size, self.attention_size, TensorShape([self._mechanism.values.shape[1]])
        )

    @property
    def output_size(self) -> Any:
        return self.attention_size if self._output_attention else self._cell.output_size

    def zero_state(self, graph: Graph, batch_size: Any, dtype: Any = "float32") -> AttentionState:
        """Return a state of zeros, even if only the step knows the length of the memory.

        `batch_size`, `dtype` and errors are those of `RNNCell.zero_state`.
        """
        check_zero_state(graph, batch_size)
        ops = graph.ops
        cell_state = self._cell.zero_state(graph, batch_size, dtype)
        shape = ops.Shape(self._mechanism.values)
        kind: DType = self._mechanism.values.dtype.base
        zero = graph.constant(0, kind)
        with graph.name_scope("AttentionWrapperZeroState"):
            attention = ops.Fill(ops.Pack([batch_size, self.attention_size]), zero)
            places = ops.Fill(ops.Pack([batch_size, ops.GatherV2(shape, 1, 0)]), zero)
            static = batch_size if isinstance(batch_size, int) else None
            attention.set_shape([static, self.attention_size])
            places.set_shape([static, self._mechanism.values.shape[1]])
            history: Any = ()
            if self._keeps_history:
                form = [static, self._mechanism.values.shape[1]]
                array = graph.tensor_array(kind, 0, dynamic_size=True, element_shape=form)
                history = AlignmentHistory(graph.constant(0, "int32"), array)
        return AttentionState(cell_state, attention, places, history)

    def starting_from(self, state: AttentionState, cell_state: Any) -> AttentionState:
        """Return the `state` with another `cell_state`, such as the last one of the encoder."""
        return state._replace(cell_state=cell_state)

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Tensor, AttentionState]:
        ops = graph.ops
        joined = ops.ConcatV2([inputs, state.attention], 1)
        output, after = self._cell(joined, state.cell_state)
        mechanism = self._mechanism

        def weight(name: str, shape: Any, dtype: DType, initializer: Any = None) -> Tensor:
            return self._weight(f"{mechanism.scope_name}/{name}", shape, dtype, initializer)

        alignments = mechanism.alignments(output, weight)
        context = ops.Squeeze(
            ops.BatchMatMulV2(ops.ExpandDims(alignments, 1), mechanism.values), squeeze_dims=[1]
        )
        attention = context
        if self._size is not None:
            seen = ops.ConcatV2([output, context], 1)
            width = int(output.shape[1] or 0) + int(mechanism.values.shape[2] or 0)
            kernel = self._weight("attention_layer/kernel", [width, self._size], output.dtype.base)
            attention = ops.MatMul(seen, kernel)
        history = state.alignment_history
        if history:
            history = history.after(alignments)
        return (
            attention if self._output_attention else output,
            AttentionState(after, attention, alignments, history),
        )
