"""Beam search: each step extends the most likely sequences of each example.

    memory = fe.rnn.tile_batch(encoder_outputs, 5)
    ...
    decoder = fe.rnn.BeamSearchDecoder(cell, table, start_tokens, end_token, state, beam_width=5, ...)
    outputs, state, lengths = fe.rnn.dynamic_decode(decoder, maximum_iterations=50)
    best = outputs.predicted_ids[:, :, 0]

The beams of an example are neighbours in the batch of the cell: its state is for N * beam_width, and
`tile_batch` tiles a memory that it attends to.

Tokens are int32 (N, beam_width), log probabilities float32 of that shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flowengine.client import embedding
from flowengine.client.layers.base import known_size
from flowengine.client.rnn.attention import AlignmentHistory, attention_states
from flowengine.client.rnn.cell import RNNCell
from flowengine.client.rnn.decoder import Decoder, OutputSpec, Projection
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions import array
from flowengine.graphs.functions.activations import log_softmax
from flowengine.graphs.functions.indexing import sequence_mask
from flowengine.graphs.structures import flatten, map_structure
from flowengine.graphs.tensor import Tensor


def tile_batch(tensors: Any, multiplier: int) -> Any:
    """Repeat each example `multiplier` times in a row: (N, ...) -> (N * multiplier, ...).

    `tensors` is a structure of tensors of any types. Raises InvalidArgumentError for a rank that is not known
    or 0.
    """

    def tiled(x: Tensor) -> Tensor:
        graph, ops = x.graph, x.graph.ops
        if not x.shape.rank:
            raise InvalidArgumentError(f"tile_batch: '{x.name}' of shape {x.shape} must have a batch axis")
        with graph.name_scope("tile_batch"):
            sizes = ops.Shape(x)
            rest = ops.StridedSlice(sizes, [1], [0], [1], end_mask=1)
            repeats = [1, multiplier] + [1] * (x.shape.rank - 1)
            wide = ops.Tile(ops.ExpandDims(x, 1), repeats)
            result: Tensor = ops.Reshape(wide, ops.ConcatV2([[-1], rest], 0))
            first = x.shape[0]
            result.set_shape([None if first is None else first * multiplier, *list(x.shape)[1:]])
        return result

    return map_structure(tiled, tensors)


class BeamSearchState(NamedTuple):
    """The state of a `BeamSearchDecoder`.

    cell_state   of the cell, (N * B, ...)
    log_probs, finished, lengths   of each beam, (N, B)
    coverage     (N, B, S), the sum of the alignments so far if a penalty needs it, else ()

    >>> state = fe.rnn.BeamSearchState(cell_state=(), log_probs=0.0, finished=False, lengths=3)
    >>> state.lengths, state.coverage
    (3, ())
    """

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    coverage: Any = ()


class BeamStep(NamedTuple):
    """The choices of each step and beam: `scores`, `predicted_ids`, and the `parent_ids` of their beams.

    >>> fe.rnn.BeamStep(scores=-0.5, predicted_ids=7, parent_ids=0).predicted_ids
    7
    """

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class BeamSearchOutput(NamedTuple):
    """The result of a beam search.

    predicted_ids   (N, T, B) int32, best beam first
    scores          of each step and beam, (N, T, B)
    steps           the choices of all steps, a `BeamStep`

    >>> steps = fe.rnn.BeamStep(scores=-0.5, predicted_ids=7, parent_ids=0)
    >>> fe.rnn.BeamSearchOutput(predicted_ids=[[[7]]], scores=[[[-0.5]]], steps=steps).predicted_ids
    [[[7]]]
    """

    predicted_ids: Any
    scores: Any
    steps: BeamStep


class BeamSearchDecoder(Decoder):
    """A decoder that keeps the `beam_width` best sequences of each example.

    table                   (C, I) embeddings of classes
    start_tokens            (N,) int32
    end_token               a number
    initial_state           of the cell, for N * beam_width
    output_units            as for `BasicDecoder`
    length_penalty_weight     w: scores are log probabilities / ((5 + length) / 6)**w (Wu et al. 2016)
    coverage_penalty_weight   c: adds c * sum(log(min(coverage, 1))) to the score of a finished beam, where
                              the coverage of a place of the memory is the sum of its alignments (Wu et al.
                              2016); places without any are beyond the memory's length. The cell must be, or
                              contain, an `AttentionWrapper`

    If the cell keeps a history of alignments, that of the last state belongs to the sequences found.

    Embeddings and state of one type of floats. Raises InvalidArgumentError if the number of classes is not
    known.
    """

    tracks_own_finished = True

    def __init__(
        self,
        cell: RNNCell,
        table: Any,
        start_tokens: Any,
        end_token: int,
        initial_state: Any,
        *,
        beam_width: int,
        output_units: int | None = None,
        use_bias: bool = False,
        projection_name: str = "dense",
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
    ) -> None:
        self.graph = graph_of(table, start_tokens)
        self._cell, self._table, self._end = cell, table, end_token
        self._start = convert(self.graph, start_tokens)
        self._state, self._width = initial_state, beam_width
        self._penalty, self._coverage_penalty = length_penalty_weight, coverage_penalty_weight
        if coverage_penalty_weight and not attention_states(initial_state):
            raise InvalidArgumentError(
                "BeamSearchDecoder: coverage_penalty_weight needs an AttentionWrapper as the cell"
            )
        self._projection = Projection(output_units, use_bias, projection_name)
        self._batch = self.graph.ops.Size(self._start)

    @property
    def batch_size(self) -> Any:
        return self._batch

    @property
    def output_specs(self) -> Any:
        beams: list[int | None] = [self._width]
        kind = flatten(self._state)[0].dtype.base
        return BeamStep(
            OutputSpec(beams, kind), OutputSpec(beams, dtypes.int32), OutputSpec(beams, dtypes.int32)
        )

    def initialize(self) -> tuple[Tensor, Any, Any]:
        graph, ops, width = self.graph, self.graph.ops, self._width
        kind = flatten(self._state)[0].dtype.base
        tokens = ops.Tile(ops.ExpandDims(self._start, 1), [1, width])
        shape = ops.Shape(tokens)
        # All beams start alike: only the first counts, lest all choose the same.
        first = graph.constant([0.0] + [float("-inf")] * (width - 1), kind)
        log_probs = ops.BroadcastTo(first, shape)
        finished = ops.BroadcastTo(graph.constant([False] + [True] * (width - 1)), shape)
        lengths = ops.Fill(shape, graph.constant(0, dtypes.int64))
        inputs = embedding.lookup(self._table, tokens)
        for each in (log_probs, finished, lengths):
            each.set_shape([self._start.shape[0], width])
        coverage: Any = ()
        if self._coverage_penalty:
            coverage = array.zeros_like(self._taken(self._state))
        return finished, inputs, BeamSearchState(self._state, log_probs, finished, lengths, coverage)

    def step(self, time: Tensor, inputs: Any, state: Any) -> tuple[Any, Any, Any, Tensor]:
        ops, width = self.graph.ops, self._width
        flat_inputs = ops.Reshape(inputs, [-1, inputs.shape[2]])
        outputs, cell_state = self._cell(flat_inputs, state.cell_state)
        logits = self._projection(outputs)
        classes = known_size("BeamSearchDecoder", logits, 1)
        steps = log_softmax(ops.Reshape(logits, [-1, width, classes]))
        total = ops.Add(ops.ExpandDims(state.log_probs, 2), self._ended(steps, state.finished, classes))
        coverage = self._covered(state, cell_state)
        scores = self._scored(total, state, classes, coverage)
        best = ops.TopKV2(ops.Reshape(scores, [-1, width * classes]), width)
        ids, parents = ops.FloorMod(best.indices, classes), ops.FloorDiv(best.indices, classes)
        was_finished = self._of_beams(state.finished, parents)
        finished = ops.LogicalOr(was_finished, ops.Equal(ids, self._end))
        longer = ops.Cast(ops.LogicalNot(was_finished), DstT=dtypes.int64)
        after = BeamSearchState(
            map_structure(lambda each: self._rows(each, parents), cell_state),
            self._chosen(total, best.indices, classes),
            finished,
            ops.Add(self._of_beams(state.lengths, parents), longer),
            ops.GatherV2(coverage, parents, 1, batch_dims=1) if self._coverage_penalty else (),
        )
        return BeamStep(best.values, ids, parents), after, embedding.lookup(self._table, ids), finished

    def _ended(self, steps: Tensor, finished: Tensor, classes: int) -> Tensor:
        """Log probabilities of a step, where a beam that has ended can only end again, at no cost."""
        graph, kind = self.graph, np.dtype(steps.dtype.base.as_numpy_dtype)
        row = np.full(classes, np.finfo(kind).min, kind)
        row[self._end] = 0.0
        result: Tensor = graph.ops.SelectV2(graph.ops.ExpandDims(finished, 2), graph.constant(row), steps)
        return result

    def _taken(self, cell_state: Any) -> Tensor:
        """How much of each place of the memory a step has taken: (N, B, S)."""
        ops = self.graph.ops
        (state, *_) = attention_states(cell_state)
        places = ops.Slice(array.shape(state.alignments), [1], [1])
        found: Tensor = ops.Reshape(state.alignments, ops.ConcatV2([[-1, self._width], places], 0))
        return found

    def _covered(self, state: BeamSearchState, cell_state: Any) -> Any:
        """Return the attention summed over all steps; a step adds nothing for a beam that had ended."""
        if not self._coverage_penalty:
            return ()
        ops, taken = self.graph.ops, self._taken(cell_state)
        goes_on = ops.Cast(ops.LogicalNot(state.finished), DstT=taken.dtype.base)
        return ops.Add(state.coverage, ops.Mul(taken, ops.ExpandDims(goes_on, 2)))

    def _scored(self, total: Tensor, state: BeamSearchState, classes: int, coverage: Any) -> Tensor:
        ops = self.graph.ops
        score = self._by_length(total, state, classes)
        if not self._coverage_penalty:
            return score
        is_there = ops.Greater(coverage, 0.0)
        missed = ops.Log(ops.Minimum(ops.SelectV2(is_there, coverage, array.ones_like(coverage)), 1.0))
        penalty = ops.Mul(ops.Sum(missed, [2]), self._coverage_penalty)
        penalty = ops.SelectV2(state.finished, penalty, array.zeros_like(penalty))
        found: Tensor = ops.Add(score, ops.ExpandDims(penalty, 2))
        return found

    def _by_length(self, total: Tensor, state: BeamSearchState, classes: int) -> Tensor:
        if self._penalty == 0:
            return total
        graph, ops = self.graph, self.graph.ops
        grows = [1] * classes
        grows[self._end] = 0
        added = ops.Mul(
            ops.ExpandDims(ops.Cast(ops.LogicalNot(state.finished), DstT=dtypes.int64), 2),
            graph.constant(grows, dtypes.int64),
        )
        lengths = ops.Cast(ops.Add(ops.ExpandDims(state.lengths, 2), added), DstT=total.dtype.base)
        penalty = ops.Pow(ops.RealDiv(ops.Add(lengths, 5.0), 6.0), self._penalty)
        result: Tensor = ops.RealDiv(total, penalty)
        return result

    def _chosen(self, total: Tensor, places: Tensor, classes: int) -> Tensor:
        """Gather the values at places among the beams and classes of each example, (N, B)."""
        return self._gathered(total, places, self._width * classes)

    def _of_beams(self, values: Tensor, parents: Tensor) -> Tensor:
        return self._gathered(values, parents, self._width)

    def _gathered(self, values: Tensor, places: Tensor, stride: int) -> Tensor:
        ops = self.graph.ops
        result: Tensor = ops.GatherV2(ops.Reshape(values, [-1]), self._flat_places(places, stride), 0)
        result.set_shape([self._start.shape[0], self._width])
        return result

    def _flat_places(self, places: Tensor, stride: int) -> Tensor:
        ops = self.graph.ops
        offsets = ops.ExpandDims(ops.Mul(ops.Range(0, self._batch, 1), stride), 1)
        result: Tensor = ops.Add(places, offsets)
        return result

    def _rows(self, values: Tensor, parents: Tensor) -> Tensor:
        """Rows of the cell's state, (N * B, ...), each from the beam that it goes on from."""
        if values.shape.rank == 0:
            return values  # of all beams, such as a count of steps
        ops = self.graph.ops
        places = ops.Reshape(self._flat_places(parents, self._width), [-1])
        result: Tensor = ops.GatherV2(values, places, 0)
        result.set_shape(values.shape)
        return result

    def finalize(self, outputs: Any, state: Any) -> tuple[Any, Any]:
        ops = self.graph.ops
        longest = ops.Cast(ops.Max(state.lengths, [1]), DstT=dtypes.int32)
        ids = ops.GatherTree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        if any(each.alignment_history for each in attention_states(state.cell_state)):
            path = self._path(outputs.parent_ids, longest, state.lengths)
            state = state._replace(cell_state=self._along(path, state.cell_state))
        return BeamSearchOutput(ids, outputs.scores, outputs), state

    def _path(self, parents: Tensor, longest: Tensor, lengths: Tensor) -> Tensor:
        """Which beam each sequence went through at each step, (T, N, B); behind its end its own."""
        ops = self.graph.ops
        own = ops.BroadcastTo(ops.Range(0, self._width, 1), array.shape(parents))
        found = ops.GatherTree(own, parents, longest, self._width + 1)
        steps = ops.GatherV2(array.shape(parents), 0, 0)
        before_end = ops.Transpose(sequence_mask(ops.Cast(lengths, DstT=dtypes.int32), steps), [2, 0, 1])
        result: Tensor = ops.SelectV2(before_end, found, own)
        return result

    def _along(self, path: Tensor, state: Any) -> Any:
        """A state of the cell whose histories are those of the sequences, not of the beams."""
        if isinstance(state, AlignmentHistory):
            ops, graph = self.graph.ops, self.graph
            steps = state.stack()
            apart = ops.Reshape(steps, ops.ConcatV2([array.shape(path), array.shape(steps)[2:]], 0))
            sorted_steps = ops.GatherV2(apart, path, 2, batch_dims=2)
            kept = graph.tensor_array(steps.dtype, state.steps, element_shape=steps.shape.as_list()[1:])
            return state._replace(array=kept.unstack(ops.Reshape(sorted_steps, array.shape(steps))))
        if isinstance(state, tuple):
            parts = [self._along(path, each) for each in state]
            return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
        return state
