"""Decoding: a loop that feeds a cell with inputs chosen from its outputs, until every example has ended.

decoder = fe.rnn.BasicDecoder(cell, fe.rnn.TrainingHelper(inputs, lengths), first_state, output_units=words)
outputs, state, lengths = fe.rnn.dynamic_decode(decoder)
loss = fe.losses.sparse_softmax_cross_entropy(targets, outputs.logits)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from flowengine.client import embedding
from flowengine.client.layers.core import dense
from flowengine.client.rnn.cell import RNNCell, zeros_of
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.random import multinomial
from flowengine.graphs.functions.reductions import reduce_all
from flowengine.graphs.graph import Graph
from flowengine.graphs.structures import flatten, map_structure, pack_like
from flowengine.graphs.tensor import Tensor


class OutputSpec(NamedTuple):
    """The description of one output of a decoder: its `shape` without the batch, and its `dtype`.

    >>> fe.rnn.OutputSpec([100], fe.dtypes.float32)
    OutputSpec(shape=[100], dtype=flowengine.float32)
    """

    shape: list[int | None]
    dtype: DType


class Decoder(ABC):
    """A base of decoders for `dynamic_decode`: `initialize`, `step`, and `finalize` of all outputs.

    >>> class Counting(fe.rnn.Decoder):  # each example counts up to 3
    ...     def __init__(self, graph):
    ...         self.graph = graph
    ...     batch_size = 2
    ...     output_specs = fe.rnn.OutputSpec([], fe.dtypes.int32)
    ...     def initialize(self):
    ...         return fe.fill([2], self.graph.constant(False)), self.graph.constant([1, 1]), ()
    ...     def step(self, time, inputs, state):
    ...         return inputs, state, inputs + 1, inputs >= 3
    >>> graph = fe.Graph()
    >>> decoder = Counting(graph)
    >>> outputs, state, lengths = fe.rnn.dynamic_decode(decoder)
    >>> [each.tolist() for each in fe.testing.evaluate(graph, [outputs.name, lengths.name])]
    [[[1, 2, 3], [1, 2, 3]], [3, 3]]
    >>> final, last = decoder.finalize(outputs, state)
    """

    graph: Graph
    #: Whether a step returns every finished example, rather than only those that it finishes.
    tracks_own_finished = False

    @property
    @abstractmethod
    def batch_size(self) -> Any:
        """N, a number or an int32 scalar Tensor."""

    @abstractmethod
    def initialize(self) -> tuple[Tensor, Any, Any]:
        """Return (finished (N,) bool, first inputs, first state)."""

    @abstractmethod
    def step(self, time: Tensor, inputs: Any, state: Any) -> tuple[Any, Any, Any, Tensor]:
        """Return (outputs, next state, next inputs, finished)."""

    @property
    @abstractmethod
    def output_specs(self) -> Any:
        """A structure like the outputs, of `OutputSpec`."""

    def finalize(self, outputs: Any, state: Any) -> tuple[Any, Any]:
        """Convert all outputs, time first, and the last state; see `flowengine.rnn.Decoder`."""
        return outputs, state


class Helper(ABC):
    """A base of helpers of a `BasicDecoder`, which choose classes from logits, and the next inputs.

    >>> graph = fe.Graph()
    >>> helper = fe.rnn.GreedyEmbeddingHelper(fe.ones([9, 4], graph=graph), graph.constant([1, 1]), 8)
    >>> finished, inputs = helper.initialize()
    >>> ids = helper.sample(fe.ones([2, 9], graph=graph))
    >>> finished, inputs = helper.next_inputs(graph.constant(0), ids)
    >>> isinstance(helper, fe.rnn.Helper), inputs.shape
    (True, TensorShape([2, 4]))
    """

    graph: Graph
    batch_size: Any

    @abstractmethod
    def initialize(self) -> tuple[Tensor, Any]:
        """Return (finished, first inputs); see the example of `flowengine.rnn.Helper`."""

    @abstractmethod
    def sample(self, logits: Tensor) -> Tensor:
        """Return the classes (N,) int32 chosen from logits (N, C); see `flowengine.rnn.Helper`."""

    @abstractmethod
    def next_inputs(self, time: Tensor, sample_ids: Tensor) -> tuple[Tensor, Any]:
        """Return (finished, next inputs) after step `time`; see `flowengine.rnn.Helper`."""


class TrainingHelper(Helper):
    """A helper that feeds the true inputs: `inputs` (N, T, I), `sequence_length` (N,) int32.

    Inputs of floats. Raises InvalidArgumentError if shapes do not fit.
    """

    def __init__(self, inputs: Any, sequence_length: Any) -> None:
        self.graph = graph_of(inputs)
        tensor = convert(self.graph, inputs)
        ops = self.graph.ops
        self._lengths = convert(self.graph, sequence_length)
        self.batch_size = ops.Size(self._lengths)
        turned = ops.Transpose(tensor, [1, 0, 2])
        self._steps = ops.GatherV2(ops.Shape(turned), 0, 0)
        self._width = tensor.shape[2]
        # One more step of zeros, which follows the last input.
        padded = ops.Pad(turned, [[0, 1], [0, 0], [0, 0]])
        self._array = self.graph.tensor_array(
            tensor.dtype.base,
            ops.Add(self._steps, 1),
            element_shape=[None, self._width],
            clear_after_read=False,
        ).unstack(padded)

    def initialize(self) -> tuple[Tensor, Any]:
        finished = self.graph.ops.Equal(self._lengths, 0)
        return finished, self._read(self.graph.constant(0, "int32"))

    def _read(self, time: Tensor) -> Tensor:
        value: Tensor = self._array.read(time)
        value.set_shape([None, self._width])
        return value

    def sample(self, logits: Tensor) -> Tensor:
        ids: Tensor = self.graph.ops.ArgMax(logits, 1, output_type="int32")
        return ids

    def next_inputs(self, time: Tensor, sample_ids: Tensor) -> tuple[Tensor, Any]:
        ops = self.graph.ops
        later = ops.Add(time, 1)
        return ops.GreaterEqual(later, self._lengths), self._read(ops.Minimum(later, self._steps))


class GreedyEmbeddingHelper(Helper):
    """A helper that feeds the embedding of the most likely class; an example ends with the end token.

    table          (C, I): a Tensor, a variable or parts of one
    start_tokens   (N,) int32
    end_token      a number

    Embeddings of floats. Raises InvalidArgumentError if tokens have another type.
    """

    def __init__(self, table: Any, start_tokens: Any, end_token: int) -> None:
        self.graph = graph_of(table, start_tokens)
        self._table, self._end = table, end_token
        self._start = convert(self.graph, start_tokens)
        self.batch_size = self.graph.ops.Size(self._start)

    def initialize(self) -> tuple[Tensor, Any]:
        finished = self.graph.ops.Fill(self.graph.ops.Shape(self._start), self.graph.constant(False))
        return finished, embedding.lookup(self._table, self._start)

    def sample(self, logits: Tensor) -> Tensor:
        ids: Tensor = self.graph.ops.ArgMax(logits, 1, output_type="int32")
        return ids

    def next_inputs(self, time: Tensor, sample_ids: Tensor) -> tuple[Tensor, Any]:
        return self.graph.ops.Equal(sample_ids, self._end), embedding.lookup(self._table, sample_ids)


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """A `GreedyEmbeddingHelper` that draws the class from the softmax of logits / temperature.

    Logits (N, C) of floats. Raises InvalidArgumentError as that does.
    """

    def __init__(
        self,
        table: Any,
        start_tokens: Any,
        end_token: int,
        *,
        temperature: float = 1.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(table, start_tokens, end_token)
        self._temperature, self._seed = temperature, seed

    def sample(self, logits: Tensor) -> Tensor:
        drawn = multinomial(self.graph.ops.RealDiv(logits, self._temperature), 1, self._seed)
        ids: Tensor = self.graph.ops.Cast(self.graph.ops.Squeeze(drawn, squeeze_dims=[1]), DstT="int32")
        return ids


class DecoderOutput(NamedTuple):
    """The outputs of a `BasicDecoder`: `logits` (N, T, C), and the chosen `sample_ids`, (N, T) int32.

    >>> graph = fe.Graph()
    >>> outputs = fe.rnn.DecoderOutput(fe.ones([2, 5, 9], graph=graph), fe.zeros([2, 5], graph=graph))
    >>> outputs.logits.shape
    TensorShape([2, 5, 9])
    """

    logits: Any
    sample_ids: Any


class BasicDecoder(Decoder):
    """A decoder of a cell, whose inputs come from a helper.

    output_units   of a projection of the cell's outputs to logits, `decoder/dense/kernel`, with a bias if
                   `use_bias`; None uses the outputs as logits

    Cell and helper of one type of floats and one batch (N, ...). Raises InvalidArgumentError if they do not
    fit.

    >>> graph = fe.Graph()
    >>> cell, helper = fe.rnn.GRUCell(4), fe.rnn.TrainingHelper(fe.ones([2, 5, 3], graph=graph), [5, 4])
    >>> decoder = fe.rnn.BasicDecoder(cell, helper, cell.zero_state(graph, 2))
    >>> finished, inputs, state = decoder.initialize()
    >>> outputs, state, inputs, finished = decoder.step(graph.constant(0), inputs, state)
    >>> outputs.logits.shape
    TensorShape([2, 4])
    """

    def __init__(
        self,
        cell: RNNCell,
        helper: Helper,
        initial_state: Any,
        *,
        output_units: int | None = None,
        use_bias: bool = False,
        projection_name: str = "dense",
    ) -> None:
        self.graph = helper.graph
        self._cell, self._helper, self._state = cell, helper, initial_state
        self._projection = Projection(output_units, use_bias, projection_name)

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_specs(self) -> Any:
        dtype = flatten(self._state)[0].dtype.base
        width = self._projection.size(self._cell.output_size)
        return DecoderOutput(OutputSpec([width], dtype), OutputSpec([], convert(self.graph, 0).dtype))

    def initialize(self) -> tuple[Tensor, Any, Any]:
        finished, inputs = self._helper.initialize()
        return finished, inputs, self._state

    def step(self, time: Tensor, inputs: Any, state: Any) -> tuple[Any, Any, Any, Tensor]:
        outputs, after = self._cell(inputs, state)
        logits = self._projection(outputs)
        ids = self._helper.sample(logits)
        finished, following = self._helper.next_inputs(time, ids)
        return DecoderOutput(logits, ids), after, following, finished


class Projection:
    """A projection of a cell's outputs to logits by a dense layer; the identity if it has no units."""

    def __init__(self, units: int | None, use_bias: bool, name: str) -> None:
        self._units, self._use_bias, self._name = units, use_bias, name

    def size(self, own: Any) -> Any:
        return own if self._units is None else self._units

    def __call__(self, outputs: Tensor) -> Tensor:
        if self._units is None:
            return outputs
        return dense(outputs, self._units, use_bias=self._use_bias, name=self._name, reuse="auto")


def dynamic_decode(
    decoder: Decoder,
    *,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[Any, Any, Tensor]:
    """Run a decoder until all examples have ended.

    impute_finished      whether a finished example has outputs of zeros and keeps its state
    maximum_iterations   the largest number of steps; by default there is no limit
    name                 of the variable scope, by default "decoder"
    returns              outputs (N, T, ...), or (T, N, ...) with `output_time_major`; the last state; the
                         number of steps of each example, (N,) int32

    Raises InvalidArgumentError if an output's rank is not known, or a step changes the structure of the
    state.
    """
    graph, ops = decoder.graph, decoder.graph.ops
    with graph.variable_scope(name or "decoder"):
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            finished = ops.LogicalOr(finished, ops.LessEqual(convert(graph, maximum_iterations), 0))
        specs = decoder.output_specs
        flat_specs = _flat_specs(specs)
        arrays = [
            graph.tensor_array(spec.dtype, 0, dynamic_size=True, element_shape=[None, *spec.shape])
            for spec in flat_specs
        ]
        zeros = [zeros_of(graph, decoder.batch_size, spec.shape, spec.dtype) for spec in flat_specs]

        def body(
            time: Tensor, arrays: Any, state: Any, inputs: Any, finished: Tensor, lengths: Tensor
        ) -> tuple[Any, ...]:
            outputs, after, following, ended = decoder.step(time, inputs, state)
            if not decoder.tracks_own_finished:
                ended = ops.LogicalOr(ended, finished)
            later = ops.Add(time, 1)
            taken = ops.Select(finished, lengths, ops.Fill(ops.Shape(lengths), later))
            found = flatten(outputs)
            if impute_finished:
                found = [_kept(finished, zero, each) for zero, each in zip(zeros, found, strict=True)]
                after = map_structure(lambda old, new: _kept(finished, old, new), state, after)
            arrays = [array.write(time, each) for array, each in zip(arrays, found, strict=True)]
            return later, arrays, after, following, ended, taken

        start = graph.constant(0, "int32", name="time")
        lengths = ops.Fill(ops.Shape(finished), start)
        _, arrays, state, _, _, lengths = graph.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: ops.LogicalNot(reduce_all(finished)),
            body,
            (start, arrays, state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            maximum_iterations=maximum_iterations,
        )
        outputs, state = decoder.finalize(_packed(specs, [array.stack() for array in arrays]), state)
        if not output_time_major:
            outputs = map_structure(_batch_first, outputs)
    return outputs, state, lengths


def _flat_specs(specs: Any) -> list[OutputSpec]:
    if isinstance(specs, OutputSpec):
        return [specs]
    return [spec for each in specs for spec in _flat_specs(each)]


def _packed(specs: Any, values: list[Tensor]) -> Any:
    if isinstance(specs, OutputSpec):
        return values[0]
    return pack_like(type(specs)(*range(len(values))) if hasattr(specs, "_fields") else specs, values)


def _kept(ended: Tensor, old: Tensor, new: Tensor) -> Tensor:
    if new.shape.rank == 0:
        return new
    result: Tensor = new.graph.ops.Select(ended, old, new)
    return result


def _batch_first(x: Tensor) -> Tensor:
    rank = x.shape.rank
    if rank is None:
        raise InvalidArgumentError(
            f"dynamic_decode: the rank of output '{x.name}' must be known: use set_shape"
        )
    result: Tensor = x.graph.ops.Transpose(x, [1, 0, *range(2, rank)])
    return result
