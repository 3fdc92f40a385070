"""Recurrent nets beside TensorFlow 1.15's: cells in loops, both ways, attention, decoders, beam search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from tests.client import replayed
from tests.client.trained import after_training, assigned

CELLS: dict[str, Any] = {
    "basic": fe.rnn.BasicRNNCell,
    "gru": fe.rnn.GRUCell,
    "lstm": fe.rnn.LSTMCell,
    "basic_lstm": fe.rnn.BasicLSTMCell,
    "norm_lstm": fe.rnn.LayerNormLSTMCell,
}


def cell_of(told: Any) -> fe.rnn.RNNCell:
    """The cell of a (kind, options) or (wrapper, cells)."""
    kind, rest = told
    if kind == "multi":
        return fe.rnn.MultiRNNCell([cell_of(each) for each in rest])
    if kind == "residual":
        return fe.rnn.ResidualWrapper(cell_of(rest))
    if kind == "device":
        return fe.rnn.DeviceWrapper(cell_of(rest), "/device:CPU:0")
    if kind == "dropout":
        return fe.rnn.DropoutWrapper(cell_of(rest[1]), **rest[0])
    made: fe.rnn.RNNCell = CELLS[kind](**rest)
    return made


def flat(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, tuple | list) else [value]


async def played(
    graph: fe.Graph, fetched: Any, value: fe.Tensor | None, factor: float = 1.0
) -> dict[str, Any]:
    """Return the first fetched values, and the results of training against `value` if that is not None."""
    async with fe.Session(graph) as session:
        variables = await assigned(session, graph, factor)
        first = await session.run(fetched)
        got = {f"value {number}": each for number, each in enumerate(flat(first))}
        if value is not None:
            return got | await after_training(session, graph, value)
        after = await session.run({each.op.name: each.value() for each in variables})
    return got | {f"after {key}": each for key, each in after.items()}


def cases_of(start: str) -> list[str]:
    return [name for name in replayed.names("rnn") if name.startswith(start)]


@pytest.mark.parametrize("name", [*cases_of("cell/"), "whole", "time_major", "both_ways"])
async def test_a_cell_in_a_loop_is_that_of_tensorflow(name: str) -> None:
    case = replayed.by_name("rnn")[name]
    graph = fe.Graph()
    options = dict(case["options"])
    told = options.pop("cell")
    inputs = {key: graph.constant(value) for key, value in case["inputs"].items()}
    made = [cell_of(told)] + ([cell_of(told)] if name == "both_ways" else [])
    outputs, state = getattr(fe.rnn, case["ours"])(*made, **inputs, **options)
    whole = fe.concat(flat(outputs), -1)
    got = await played(graph, [outputs, state], whole)
    replayed.compare("rnn", name, got, rtol=1e-4, atol=1e-5)


def mechanism(kind: str, memory: fe.Tensor, lengths: fe.Tensor) -> Any:
    if kind.startswith("luong"):
        return fe.rnn.LuongAttention(4, memory, lengths, scale=kind.endswith("scaled"))
    return fe.rnn.BahdanauAttention(4, memory, lengths, normalize=kind.endswith("normalized"))


@pytest.mark.parametrize("name", cases_of("attention/"))
async def test_a_decoder_that_attends_is_that_of_tensorflow(name: str) -> None:
    case = replayed.by_name("rnn")[name]
    graph = fe.Graph()
    inputs = {key: graph.constant(value) for key, value in case["inputs"].items()}
    options = case["options"]
    found = mechanism(options["kind"], inputs["memory"], inputs["memory_length"])
    cell = fe.rnn.AttentionWrapper(
        fe.rnn.GRUCell(4), found, attention_layer_size=options["layer"], alignment_history=True
    )
    helper = fe.rnn.TrainingHelper(inputs["inputs"], inputs["sequence_length"])
    decoder = fe.rnn.BasicDecoder(
        cell, helper, cell.zero_state(graph, 2), output_units=5, projection_name="words"
    )
    outputs, state, lengths = fe.rnn.dynamic_decode(decoder, impute_finished=True)
    history = state.alignment_history.stack()
    fetched = [outputs.logits, outputs.sample_ids, lengths, state.attention, history]
    got = await played(graph, fetched, outputs.logits)
    replayed.compare("rnn", name, got, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", cases_of("beam/"))
async def test_a_beam_search_decodes_as_in_tensorflow(name: str) -> None:
    case = replayed.by_name("rnn")[name]
    graph = fe.Graph()
    inputs = {key: graph.constant(value) for key, value in case["inputs"].items()}
    memory, lengths = (fe.rnn.tile_batch(inputs[key], 3) for key in ("memory", "memory_length"))
    found = mechanism("luong", memory, lengths)
    cell = fe.rnn.AttentionWrapper(fe.rnn.GRUCell(4), found, attention_layer_size=4, alignment_history=True)
    decoder = fe.rnn.BeamSearchDecoder(
        cell,
        inputs["table"],
        graph.constant([1, 1]),
        2,
        cell.zero_state(graph, 6),
        beam_width=3,
        output_units=6,
        projection_name="words",
        length_penalty_weight=case["options"]["penalty"],
        coverage_penalty_weight=case["options"]["coverage"],
    )
    outputs, state, lengths = fe.rnn.dynamic_decode(decoder, maximum_iterations=7)
    history = state.cell_state.alignment_history.stack()
    fetched = [outputs.predicted_ids, outputs.scores, state.log_probs, lengths, history]
    replayed.compare("rnn", name, await played(graph, fetched, None, 4.0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["greedy", "sample"])
async def test_a_decoder_that_feeds_itself_is_that_of_tensorflow(name: str) -> None:
    case = replayed.by_name("rnn")[name]
    graph = fe.Graph()
    table = graph.constant(case["inputs"]["table"])
    helper: fe.rnn.GreedyEmbeddingHelper = (
        fe.rnn.GreedyEmbeddingHelper(table, [1, 3], 2)
        if name == "greedy"
        else fe.rnn.SampleEmbeddingHelper(table, [1, 3], 2, temperature=0.7, seed=5)
    )
    cell = fe.rnn.LSTMCell(4)
    decoder = fe.rnn.BasicDecoder(
        cell, helper, cell.zero_state(graph, 2), output_units=6, use_bias=True, projection_name="words"
    )
    outputs, _, lengths = fe.rnn.dynamic_decode(decoder, maximum_iterations=6)
    got = await played(graph, [outputs.logits, outputs.sample_ids, lengths], None, 4.0)
    replayed.compare("rnn", name, got, rtol=1e-4, atol=1e-5)


async def test_a_raw_loop_is_that_of_tensorflow() -> None:
    case = replayed.by_name("rnn")["raw"]
    graph = fe.Graph()
    ops = graph.ops
    x, lengths = (graph.constant(case["inputs"][key]) for key in ("inputs", "sequence_length"))
    steps = ops.Transpose(x, [1, 0, 2])
    cell = fe.rnn.GRUCell(4)

    def step(time: fe.Tensor, output: Any, state: Any, count: Any) -> fe.rnn.RawStep:
        state = cell.zero_state(graph, 2) if state is None else state
        count = graph.constant(0) if count is None else ops.Add(count, 1)
        inputs = ops.GatherV2(steps, ops.Minimum(time, 3), 0)
        return fe.rnn.RawStep(ops.GreaterEqual(time, lengths), inputs, state, output, count)

    emitted, state, count = fe.rnn.raw_rnn(cell, step, graph=graph)
    outputs = ops.Transpose(emitted.stack(), [1, 0, 2])
    replayed.compare(
        "rnn", "raw", await played(graph, [outputs, state, count], outputs), rtol=1e-4, atol=1e-5
    )


async def test_a_raw_loop_is_the_dynamic_one_if_told_the_same() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    lengths = graph.constant([4, 2])
    cell = fe.rnn.GRUCell(5)
    outputs, last = fe.rnn.dynamic_rnn(cell, graph.constant(x), lengths)
    steps = graph.tensor_array("float32", 4, element_shape=[2, 3], clear_after_read=False)
    steps = steps.unstack(graph.constant(x.transpose(1, 0, 2)))

    def step(time: fe.Tensor, output: Any, state: Any, count: Any) -> fe.rnn.RawStep:
        state = cell.zero_state(graph, 2) if state is None else state
        count = graph.constant(0) if count is None else ops.Add(count, 1)
        inputs = steps.read(ops.Minimum(time, 3))
        return fe.rnn.RawStep(ops.GreaterEqual(time, lengths), inputs, state, output, count)

    emitted, state, count = fe.rnn.raw_rnn(cell, step, graph=graph)
    async with fe.Session(graph) as session:
        await session.initialize()
        got = await session.run([outputs, last, ops.Transpose(emitted.stack(), [1, 0, 2]), state, count])
    np.testing.assert_allclose(got[2], got[0], 1e-6)
    np.testing.assert_allclose(got[3], got[1], 1e-6)
    assert got[4] == 4
    assert len(graph.collection("variables")) == 4


async def test_lengths_and_sizes_may_be_known_to_the_run_only() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, None, 3])
    lengths = graph.placeholder("int64", [None])
    outputs, state = fe.rnn.dynamic_rnn(fe.rnn.LSTMCell(4), x, lengths)
    assert outputs.shape.as_list() == [None, None, 4]
    async with fe.Session(graph) as session:
        await session.initialize()
        feed = {x: np.ones((3, 6, 3), np.float32), lengths: np.array([0, 2, 1])}
        got, last = await session.run([outputs, state], feed)
        assert got.shape == (3, 6, 4)
        assert (got[0] == 0).all()
        assert (got[1, :2] != 0).all()
        assert (got[1, 2:] == 0).all()
        np.testing.assert_array_equal(last.h[1], got[1, 1])
        with pytest.raises(InvalidArgumentError, match="longer than the inputs"):
            await session.run(outputs, feed | {lengths: np.array([0, 7, 1])})


async def test_dropout_of_a_cell_keeps_a_share() -> None:
    graph = fe.Graph()
    x = graph.constant(np.ones((50, 3, 20), np.float32))
    cell = fe.rnn.DropoutWrapper(fe.rnn.GRUCell(20), output_keep_prob=0.5, state_keep_prob=0.9, seed=1)
    outputs, _ = fe.rnn.dynamic_rnn(cell, x)
    async with fe.Session(graph) as session:
        await session.initialize()
        first, second = await session.run(outputs), await session.run(outputs)
    assert abs((first == 0).mean() - 0.5) < 0.05
    # What is dropped is drawn in each iteration and in each step.
    assert ((first == 0) != (second == 0)).any()
    assert ((first[:, 0] == 0) != (first[:, 1] == 0)).any()


def test_a_cell_on_a_device_asks_for_it() -> None:
    graph = fe.Graph()
    cell = fe.rnn.DeviceWrapper(fe.rnn.BasicRNNCell(2), "/device:CPU:0")
    output, _ = cell(graph.constant(np.zeros((1, 3), np.float32)), cell.zero_state(graph, 1))
    assert output.op.device == "/device:CPU:0"


def test_what_does_not_fit_is_told_when_it_is_written() -> None:
    graph = fe.Graph()
    x = graph.constant(np.zeros((2, 3), np.float32))
    cell = fe.rnn.GRUCell(4)
    cell(x, cell.zero_state(graph, 2))
    other = fe.Graph()
    with pytest.raises(InvalidArgumentError, match="another graph"):
        cell(other.constant(np.zeros((2, 3), np.float32)), cell.zero_state(other, 2))
    with pytest.raises(InvalidArgumentError, match="at least one cell"):
        fe.rnn.MultiRNNCell([])
    with pytest.raises(InvalidArgumentError, match="one cell is given twice"):
        fe.rnn.MultiRNNCell([cell, cell])
    with pytest.raises(InvalidArgumentError, match="keep_prob"):
        fe.rnn.DropoutWrapper(cell, input_keep_prob=0)
    residual = fe.rnn.ResidualWrapper(fe.rnn.GRUCell(4))
    with pytest.raises(InvalidArgumentError, match="do not fit outputs"):
        residual(x, residual.zero_state(graph, 2))
    with pytest.raises(InvalidArgumentError, match="must have axes"):
        fe.rnn.dynamic_rnn(cell, graph.placeholder("float32"))


async def test_a_decoder_may_draw_what_it_says() -> None:
    graph = fe.Graph()
    table = graph.constant(np.eye(4, dtype=np.float32))
    drawn: list[Any] = []
    for temperature in (1.0, 1e-4):
        helper = fe.rnn.SampleEmbeddingHelper(table, [0] * 40, 3, temperature=temperature, seed=2)
        cell = fe.rnn.BasicRNNCell(4)
        decoder = fe.rnn.BasicDecoder(cell, helper, cell.zero_state(graph, 40))
        outputs, _, lengths = fe.rnn.dynamic_decode(
            decoder, maximum_iterations=5, output_time_major=True, name=f"decoder_{len(drawn)}"
        )
        drawn.append((outputs.sample_ids, outputs.logits, lengths))
    async with fe.Session(graph) as session:
        await session.initialize()
        warm, cold = await session.run(drawn)
    assert len(np.unique(warm[0])) == 4
    # Nearly without temperature the likeliest class is taken.
    np.testing.assert_array_equal(cold[0], cold[1].argmax(-1))
    ended = (warm[0] == 3).argmax(0)
    taken = np.where((warm[0] == 3).any(0), ended + 1, 5)
    np.testing.assert_array_equal(warm[2], taken)


async def test_a_decoder_that_may_take_no_step_takes_none() -> None:
    graph = fe.Graph()
    limit = graph.placeholder("int32", [])
    helper = fe.rnn.GreedyEmbeddingHelper(graph.constant(np.eye(3, dtype=np.float32)), [0, 1], 2)
    cell = fe.rnn.BasicRNNCell(3)
    decoder = fe.rnn.BasicDecoder(cell, helper, cell.zero_state(graph, 2))
    outputs, _, lengths = fe.rnn.dynamic_decode(decoder, maximum_iterations=limit)
    async with fe.Session(graph) as session:
        await session.initialize()
        ids, steps = await session.run([outputs.sample_ids, lengths], {limit: 2})
        assert ids.shape[0] == 2
        assert steps.max() <= 2
        np.testing.assert_array_equal(await session.run(lengths, {limit: 0}), [0, 0])


async def test_dropout_drawn_once_a_run_is_that_of_all_steps_and_examples() -> None:
    graph = fe.Graph()
    x = graph.constant(np.ones((5, 4, 20), np.float32))
    cell = fe.rnn.DropoutWrapper(
        fe.rnn.BasicRNNCell(20), output_keep_prob=0.5, variational_recurrent=True, seed=1
    )
    outputs, _ = fe.rnn.dynamic_rnn(cell, x)
    async with fe.Session(graph) as session:
        await session.initialize()
        first, second = await session.run(outputs) == 0, await session.run(outputs) == 0
    assert (first == first[:1, :1]).all()
    assert (first != second).any()
    unknown = graph.placeholder("float32", [None, None])
    wrapped = fe.rnn.DropoutWrapper(
        fe.rnn.BasicRNNCell(20), input_keep_prob=0.5, variational_recurrent=True, seed=1
    )
    with pytest.raises(InvalidArgumentError, match="known sizes"):
        wrapped(unknown, wrapped.zero_state(graph, 2))


async def test_what_a_memory_has_not_is_not_missed() -> None:
    """A penalty of coverage is finite where memories are shorter than the longest."""
    graph = fe.Graph()
    memory = graph.constant(np.random.default_rng(1).normal(size=(4, 5, 3)).astype(np.float32))
    found = fe.rnn.LuongAttention(4, memory, graph.constant([5, 5, 2, 2]))
    cell = fe.rnn.AttentionWrapper(fe.rnn.GRUCell(4), found, alignment_history=True)
    table = graph.constant(np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32))

    def decoder(state: Any) -> fe.rnn.BeamSearchDecoder:
        start = graph.constant([1, 1])
        return fe.rnn.BeamSearchDecoder(
            cell, table, start, 2, state, beam_width=2, output_units=6, coverage_penalty_weight=0.5
        )

    outputs, state, _ = fe.rnn.dynamic_decode(decoder(cell.zero_state(graph, 4)), maximum_iterations=6)
    history = state.cell_state.alignment_history.stack()
    with pytest.raises(InvalidArgumentError, match="coverage_penalty_weight needs"):
        decoder(graph.constant(np.zeros((4, 4), np.float32)))
    async with fe.Session(graph) as session:
        await session.initialize()
        scores, looked = await session.run([outputs.scores, history])
    assert np.isfinite(scores[0]).all()
    assert looked.shape[1:] == (4, 5)
    assert (looked[:, 2:, 2:] == 0).all()
