"""A cell run over sequences by a loop: forwards, in both directions, or as a function says.

    outputs, state = fe.rnn.dynamic_rnn(fe.rnn.LSTMCell(128), words, sequence_length=lengths)

The loop stops at the longest of the sequence lengths. Beyond its own length an example has outputs of zero,
and its state stands still.

Inputs are (N, steps, D), or (steps, N, D) where time comes first, floats of one type, which outputs and
state have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flowengine.client.rnn.cell import RNNCell, zeros_of
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.structures import flatten, map_structure, pack_like
from flowengine.graphs.tensor import Tensor


def dynamic_rnn(
    cell: RNNCell,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    *,
    time_major: bool = False,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Run a cell over sequences.

    inputs            (N, T, I), or a structure of such; with `time_major` (T, N, I). I known
    sequence_length   (N,) int32 or int64, each at most T (InvalidArgumentError of the run if not); None for T
    initial_state     a structure as `cell.state_size`; zeros unless it is given
    swap_memory       whether values for the backward pass may be kept in host memory
    name              of the variable scope, "rnn" unless it is given
    returns           outputs as inputs, (N, T, output_size), and the last state

    Inputs and state of one type of floats. Raises InvalidArgumentError where I is not known or shapes do not
    fit.
    """
    flat = flatten(inputs)
    graph = graph_of(*flat)
    with graph.variable_scope(name or "rnn"):
        tensors = [_time_first(graph, convert(graph, each), time_major) for each in flat]
        lengths = None if sequence_length is None else convert(graph, sequence_length)
        run = _UnrolledCell(graph, cell, pack_like(inputs, tensors), tensors, lengths)
        state = run.first_state(initial_state)
        outputs, state = run.loop(state, parallel_iterations, swap_memory)
        return map_structure(lambda each: _time_first(graph, each, time_major), outputs), state


def bidirectional_dynamic_rnn(
    cell_forward: RNNCell,
    cell_backward: RNNCell,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_forward: Any = None,
    initial_state_backward: Any = None,
    *,
    time_major: bool = False,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run one cell from the start and one from the end of each sequence.

    Arguments as for `dynamic_rnn`; variables in `bidirectional_rnn/fw/...` and `bidirectional_rnn/bw/...`.
    Returns ((outputs forward, outputs backward), (state forward, state backward)), the outputs of both in the
    order of the inputs.

    Types and errors as for `dynamic_rnn`: InvalidArgumentError where shapes do not fit. Schuster, Paliwal
    1997.
    """
    flat = flatten(inputs)
    graph = graph_of(*flat)
    given: dict[str, Any] = {
        "time_major": time_major,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
    }
    time, batch = (0, 1) if time_major else (1, 0)

    def backwards(x: Any) -> Tensor:
        tensor = convert(graph, x)
        if sequence_length is None:
            turned: Tensor = graph.ops.ReverseV2(tensor, [time])
        else:
            turned = graph.ops.ReverseSequence(tensor, sequence_length, seq_dim=time, batch_dim=batch)
        return turned

    with graph.variable_scope(name or "bidirectional_rnn"):
        forward = dynamic_rnn(
            cell_forward, inputs, sequence_length, initial_state_forward, name="fw", **given
        )
        with graph.name_scope("ReverseInputs"):
            turned = map_structure(backwards, inputs)
        found, state = dynamic_rnn(
            cell_backward, turned, sequence_length, initial_state_backward, name="bw", **given
        )
        with graph.name_scope("ReverseOutputs"):
            outputs = map_structure(backwards, found)
    return (forward[0], outputs), (forward[1], state)


def _time_first(graph: Graph, x: Tensor, already: bool) -> Tensor:
    """(N, T, ...) <-> (T, N, ...)."""
    if already:
        return x
    rank = x.shape.rank
    if rank is None or rank < 2:
        raise InvalidArgumentError(
            f"rnn: '{x.name}' of shape {x.shape} must have axes of batch and time, and a known rank"
        )
    result: Tensor = graph.ops.Transpose(x, [1, 0, *range(2, rank)])
    return result


class _UnrolledCell:
    """A cell over inputs of time first."""

    def __init__(
        self, graph: Graph, cell: RNNCell, inputs: Any, flat: list[Tensor], lengths: Tensor | None
    ) -> None:
        self.graph, self._cell, self._inputs, self._flat = graph, cell, inputs, flat
        shape = flat[0].shape
        self._static: int | None = shape[1]
        sizes = None if None not in (shape[0], shape[1]) else graph.ops.Shape(flat[0])
        self._steps: Any = shape[0] if sizes is None else graph.ops.GatherV2(sizes, 0, 0)
        self._batch: Any = shape[1] if sizes is None else graph.ops.GatherV2(sizes, 1, 0)
        self._lengths = None if lengths is None else self._checked(lengths)

    def _checked(self, lengths: Tensor) -> Tensor:
        ops = self.graph.ops
        if lengths.dtype.base is not dtypes.int32:
            lengths = ops.Cast(lengths, DstT=dtypes.int32)
        if lengths.shape.rank not in (None, 1):
            raise InvalidArgumentError(f"rnn: sequence_length must be of shape [batch], not {lengths.shape}")
        fits = ops.All(ops.LessEqual(lengths, self._steps), [0])
        what = "rnn: a sequence_length is longer than the inputs"
        check = ops.Assert(fits, [what, lengths], T=["string", "int32"])
        with self.graph.control_dependencies([check]):
            checked: Tensor = ops.Identity(lengths, name="sequence_length")
        return checked

    def first_state(self, given: Any) -> Any:
        if given is not None:
            return map_structure(lambda each: convert(self.graph, each), given)
        return self._cell.zero_state(self.graph, self._batch, self._flat[0].dtype.base)

    def loop(self, state: Any, parallel_iterations: int, swap_memory: bool) -> tuple[Any, Any]:
        graph, ops, cell = self.graph, self.graph.ops, self._cell
        dtype = flatten(state)[0].dtype.base
        sizes = flatten(cell.output_size)
        reads = [
            graph.tensor_array(
                each.dtype.base,
                self._steps,
                element_shape=list(each.shape)[1:],
                name=f"dynamic_rnn/input_{n}",
            ).unstack(each)
            for n, each in enumerate(self._flat)
        ]
        writes = [
            graph.tensor_array(
                dtype, self._steps, element_shape=[self._static, *_dims(size)], name=f"dynamic_rnn/output_{n}"
            )
            for n, size in enumerate(sizes)
        ]
        zeros = [zeros_of(graph, self._batch, size, dtype) for size in sizes]
        bound = self._steps
        if self._lengths is not None:
            # At least one step, so that every output is written once where all sequences are empty.
            longest = ops.Maximum(1, ops.Max(self._lengths, [0]))
            bound = ops.Minimum(self._steps, longest)

        def body(time: Tensor, arrays: Any, state: Any) -> tuple[Tensor, Any, Any]:
            step = [array.read(time) for array in reads]
            for value, whole in zip(step, self._flat, strict=True):
                value.set_shape(list(whole.shape)[1:])
            outputs, after = cell(pack_like(self._inputs, step), state)
            found = flatten(outputs)
            if self._lengths is not None:
                ended = ops.GreaterEqual(time, self._lengths)
                found = [self._kept(ended, zero, each) for zero, each in zip(zeros, found, strict=True)]
                after = map_structure(lambda old, new: self._kept(ended, old, new), state, after)
            arrays = [array.write(time, each) for array, each in zip(arrays, found, strict=True)]
            return ops.Add(time, 1), arrays, after

        _, arrays, last = graph.while_loop(
            lambda time, *_: ops.Less(time, bound),
            body,
            (graph.constant(0, "int32", name="time"), writes, state),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            maximum_iterations=self._steps,
        )
        stacked = [array.stack() for array in arrays]
        for value, size in zip(stacked, sizes, strict=True):
            value.set_shape([self._flat[0].shape[0], self._static, *_dims(size)])
        return pack_like(cell.output_size, stacked), last

    def _kept(self, ended: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Select the new values for the examples that go on, the old values for the others."""
        if new.shape.rank == 0:
            return new
        chosen: Tensor = self.graph.ops.Select(ended, old, new)
        chosen.set_shape(new.shape)
        return chosen


def _dims(size: Any) -> list[int | None]:
    return [size] if isinstance(size, int) else TensorShape(size).as_list()


class RawStep(NamedTuple):
    """A description of the next step, as the function of `raw_rnn` returns it.

    finished     (N,) bool: which examples have ended
    inputs       of the cell
    state        of the cell
    emit         the values to write; at first, a structure of tensors like them without the batch axis, or
                 None for the cell's outputs
    loop_state   a value that the function gets back at the next step, or None
    """

    finished: Any
    inputs: Any
    state: Any
    emit: Any
    loop_state: Any


def raw_rnn(
    cell: RNNCell,
    loop_fn: Callable[[Tensor, Any, Any, Any], Any],
    *,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    graph: Graph | None = None,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """Run a cell with inputs, states and ends that a function decides, step by step.

    loop_fn   (time, outputs, state, loop_state) -> `RawStep`, or a tuple like it; at first with time 0 and
              None for the others. An example that has ended emits zeros, and its state stands still
    graph     the graph of the function's tensors; by default that of the first step's tensors
    returns   (structure of TensorArrays of the emitted values, last state, last loop state or None)

    Of floats. Raises InvalidArgumentError if no graph is given and the first step has no tensor, and if the
    function's structures differ from step to step.
    """
    owner = graph or getattr(cell, "_graph", None)
    if owner is None:
        raise InvalidArgumentError("raw_rnn: give graph=, the graph to build in")
    ops = owner.ops
    with owner.variable_scope(name or "rnn"):
        start = owner.constant(0, "int32", name="time")
        first = RawStep(*loop_fn(start, None, None, None))
        batch = _batch_of(owner, flatten(first.inputs)[0])
        kind = flatten(first.state)[0].dtype.base
        emitted: Any = cell.output_size if first.emit is None else first.emit
        shapes = [
            (_dims(each), kind) if first.emit is None else (list(each.shape), each.dtype.base)
            for each in flatten(emitted)
        ]
        arrays = [
            owner.tensor_array(
                dtype, 0, dynamic_size=True, element_shape=[None, *dims], name=f"rnn_output_{n}"
            )
            for n, (dims, dtype) in enumerate(shapes)
        ]
        zeros = [zeros_of(owner, batch, dims, dtype) for dims, dtype in shapes]
        carried: Any = first.loop_state if first.loop_state is not None else owner.constant(0, "int32")

        def body(
            time: Tensor, finished: Tensor, inputs: Any, arrays: Any, state: Any, carried: Any
        ) -> tuple[Any, ...]:
            outputs, after = cell(inputs, state)
            later = ops.Add(time, 1)
            known = None if first.loop_state is None else carried
            step = RawStep(*loop_fn(later, outputs, after, known))

            def kept(old: Tensor, new: Tensor) -> Tensor:
                if new.shape.rank == 0:
                    return new
                result: Tensor = ops.Select(finished, old, new)
                return result

            emit = flatten(outputs if first.emit is None else step.emit)
            emit = [kept(zero, each) for zero, each in zip(zeros, emit, strict=True)]
            return (
                later,
                ops.LogicalOr(finished, step.finished),
                step.inputs,
                [array.write(time, each) for array, each in zip(arrays, emit, strict=True)],
                map_structure(kept, state, step.state),
                carried if step.loop_state is None else step.loop_state,
            )

        found = owner.while_loop(
            lambda time, finished, *_: ops.LogicalNot(ops.All(finished, [0])),
            body,
            (start, convert(owner, first.finished), first.inputs, arrays, first.state, carried),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        last = None if first.loop_state is None else found[5]
        return pack_like(emitted, found[3]), found[4], last


def _batch_of(graph: Graph, inputs: Tensor) -> Any:
    size = inputs.shape[0] if inputs.shape.dims else None
    return size if size is not None else graph.ops.GatherV2(graph.ops.Shape(inputs), 0, 0)
