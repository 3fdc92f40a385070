"""Session: requests, feeds, results, growth, ownership, closing."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Awaitable, Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.targets import register_scheme

Pair = namedtuple("Pair", "first second")


def doubled() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    graph.ops.Add(x, x, name="y")
    graph.ops.Neg(x, name="z")
    graph.ops.NoOp(name="nothing")
    return graph


ROWS = np.array([[1, 2], [3, 4]], np.float32)


async def test_fetches_keep_their_structure() -> None:
    graph = doubled()
    async with fe.Session(graph) as session:
        feed = {"x:0": ROWS}
        assert np.array_equal(await session.run("y:0", feed), 2 * ROWS)
        assert await session.run("nothing") is None
        assert await session.run([]) == []
        result = await session.run({"a": ["y:0", "nothing"], "b": Pair("z:0", ("y:0",))}, feed)
        assert result["a"][1] is None
        assert isinstance(result["b"], Pair)
        assert np.array_equal(result["b"].first, -ROWS)
        assert np.array_equal(result["b"].second[0], 2 * ROWS)


async def test_equal_sequences_of_different_classes_are_different_requests() -> None:
    """A plan is found again by what was asked for; a named tuple equals a tuple, and keeps its class."""
    graph = doubled()
    graph.ops.NoOp(name="list")
    async with fe.Session(graph) as session:
        feed = {"x:0": ROWS}
        for nested in (False, True):
            for kind in (tuple, Pair._make, list):
                asked = kind(["y:0", "nothing"])
                found = await session.run((asked, "z:0") if nested else asked, feed)
                found = found[0] if nested else found
                assert type(found) is type(asked)
                assert np.array_equal(found[0], 2 * ROWS)
        assert await session.run(["nothing"]) == [None]
        assert await session.run(("list", "nothing")) == (None, None)


async def test_tensors_and_operations_stand_for_their_names() -> None:
    graph = fe.Graph()
    x = graph.placeholder("int32", [], name="x")
    y = graph.ops.Add(x, graph.constant(1), name="y")
    async with fe.Session(graph) as session:
        assert await session.run(y, {x: 4}) == 5
        assert await session.run(y.op, {x: 4}) is None


async def test_results_have_the_types_that_tensorflow_returns() -> None:
    graph = fe.Graph()
    scalar = graph.constant(np.float32(1.5))
    text = graph.constant(b"ab\0")
    texts = graph.constant(np.array([b"a\0", b""], object))
    half = graph.constant(np.array([1.5], ml_dtypes.bfloat16))
    async with fe.Session(graph) as session:
        a, b, c, d = await session.run([scalar, text, texts, half])
    assert isinstance(a, np.float32)
    assert b == b"ab\0"
    assert c.dtype == object
    assert list(c) == [b"a\0", b""]
    assert d.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((2, 3), np.float32), r"shape \[2, 3\] for 'x:0', which has shape \[\?,2\]"),
        (["a", "b"], "strings"),
        (np.ones((1, 2), np.complex64), "complex64"),
        ([[1, 2], [3]], "rows of different lengths"),
    ],
)
async def test_a_feed_that_does_not_fit_is_refused(value: Any, message: str) -> None:
    async with fe.Session(doubled()) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await session.run("y:0", {"x:0": value})


async def test_parts_that_a_structure_does_not_have_are_not_fed() -> None:
    graph = fe.Graph()
    slices = fe.IndexedSlices(*(graph.placeholder("int32", None, name=name) for name in ("values", "rows")))
    both = graph.ops.Add(slices.values, slices.indices)
    async with fe.Session(graph) as session:
        assert (await session.run(both, {slices: ([1, 2], [3, 4], None)})).tolist() == [4, 6]
        got = await session.run(slices, {slices: ([1, 2], [3, 4], None)})
        assert got.dense_shape is None


@pytest.mark.parametrize(("producer", "is_scalar"), [(23, False), (24, True)])
async def test_old_placeholders_of_unknown_shape_were_written_as_scalars(
    producer: int, is_scalar: bool
) -> None:
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [], name="x"), name="y")
    definition = graph.to_graph_def()
    definition.versions.producer = producer
    async with fe.Session(fe.Graph.from_graph_def(definition)) as session:
        assert await session.run("y:0", {"x:0": 1.0}) == -1
        if is_scalar:
            with pytest.raises(fe.errors.InvalidArgumentError, match="which has shape"):
                await session.run("y:0", {"x:0": [1.0]})
        else:
            assert await session.run("y:0", {"x:0": [1.0]}) == [-1]


@pytest.mark.parametrize("dtype", ["int8", "qint8"])
async def test_integers_that_overflow_are_refused_and_lists_are_converted(dtype: str) -> None:
    graph = fe.Graph()
    x = graph.placeholder(dtype, None, name="x")
    y = graph.ops.Identity(x, name="y")
    async with fe.Session(graph) as session:
        assert (await session.run(y, {x: [1, -2]})).dtype.itemsize == 1
        assert (await session.run(y, {x: []})).shape == (0,)
        with pytest.raises(fe.errors.InvalidArgumentError, match=f"does not fit into {dtype}"):
            await session.run(y, {x: [1, 300]})
        with pytest.raises(fe.errors.InvalidArgumentError, match="float64"):
            await session.run(y, {x: [1.5]})


async def test_strings_are_fed_as_str_bytes_and_arrays() -> None:
    graph = fe.Graph()
    x = graph.placeholder("string", None, name="x")
    y = graph.ops.Identity(x, name="y")
    async with fe.Session(graph) as session:
        assert await session.run(y, {x: "é"}) == "é".encode()
        assert (await session.run(y, {x: ["a", b"b\0"]})).tolist() == [b"a", b"b\0"]
        assert (await session.run(y, {x: np.array([["u"]])})).tolist() == [[b"u"]]
        with pytest.raises(fe.errors.InvalidArgumentError, match="dtype string"):
            await session.run(y, {x: [1]})


async def test_a_feed_replaces_an_inner_tensor_and_cuts_what_leads_to_it() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    middle = graph.ops.Neg(x, name="middle")
    y = graph.ops.Square(middle, name="y")
    async with fe.Session(graph) as session:
        assert await session.run([y, middle], {middle: 3.0}) == [9.0, 3.0]


async def test_feeding_one_output_leaves_the_node_running_for_the_others() -> None:
    graph = fe.Graph()
    a, b = graph.ops.Split(graph.constant(0), graph.constant([1.0, 2.0]), num_split=2, name="parts")
    total = graph.ops.Add(a, b)
    async with fe.Session(graph) as session:
        assert (await session.run(total, {a: np.array([10], np.float32)})).tolist() == [12.0]


async def test_an_edge_inside_a_loop_can_be_neither_fed_nor_fetched() -> None:
    graph = fe.Graph()
    enter = graph.ops.Enter(graph.constant(1.0), frame_name="loop")
    inside = graph.ops.Neg(enter, name="inside")
    graph.ops.Exit(inside, name="out")
    async with fe.Session(graph) as session:
        assert await session.run("out:0") == -1
        with pytest.raises(fe.errors.InvalidArgumentError, match="frame 'loop'"):
            await session.run("inside:0")
        with pytest.raises(fe.errors.InvalidArgumentError, match="frame 'loop'"):
            await session.run("out:0", {"inside:0": 2.0})


async def test_names_that_are_not_there_are_named_with_what_is_similar() -> None:
    async with fe.Session(doubled()) as session:
        with pytest.raises(fe.errors.NotFoundError, match="did you mean 'nothing'"):
            await session.run("nothin")
        with pytest.raises(fe.errors.NotFoundError, match="no tensor 'q:0'"):
            await session.run("q:0")
        with pytest.raises(fe.errors.InvalidArgumentError, match="no 'y:3'"):
            await session.run("y:3")
        with pytest.raises(fe.errors.InvalidArgumentError, match="cannot fetch"):
            await session.run(3)


async def test_an_error_says_which_node_with_which_inputs_made_where() -> None:
    graph = fe.Graph()
    a = graph.placeholder("float32", None, name="a")
    b = graph.placeholder("float32", None, name="b")
    graph.ops.Add(a, b, name="sum")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError) as caught:
            await session.run("sum:0", {"a:0": np.ones(2), "b:0": np.ones(3)})
    error = caught.value
    assert (error.node_name, error.op_type) == ("sum", "Add")
    assert error.input_shapes == ("float32[2]", "float32[3]")
    assert error.creation_site is not None
    assert "test_session.py" in error.creation_site
    assert "Add 'sum'" in str(error)


async def test_the_session_notices_that_its_graph_has_grown() -> None:
    graph = doubled()
    async with fe.Session(graph) as session:
        await session.run("y:0", {"x:0": ROWS})
        graph.ops.Neg(graph.constant(3.0), name="later")
        assert await session.run("later:0") == -3
        more = fe.Graph()
        more.constant(5.0, name="added")
        session.extend(more)
        assert await session.run("added:0") == 5
        with pytest.raises(fe.errors.InvalidArgumentError, match="added"):
            session.extend(more)


async def test_make_callable_takes_its_feeds_in_order() -> None:
    graph = fe.Graph()
    a = graph.placeholder("float32", [], name="a")
    b = graph.placeholder("float32", [], name="b")
    c = graph.ops.Sub(a, b)
    async with fe.Session(graph) as session:
        subtract = session.make_callable(c, [b, a])
        assert await subtract(1.0, 5.0) == 4
        with pytest.raises(fe.errors.InvalidArgumentError, match="takes 2 values"):
            await subtract(1.0)


async def test_a_bare_name_as_a_feed_key() -> None:
    graph = doubled()
    graph.ops.Split(0, graph.ops.Identity([1.0, 2.0], name="pair"), num_split=2, name="halves")
    async with fe.Session(graph) as session:
        assert np.array_equal(await session.run("y:0", {"x": ROWS}), 2 * ROWS)
        assert np.array_equal(await session.make_callable("y:0", ["x"])(ROWS), 2 * ROWS)
        with pytest.raises(fe.errors.InvalidArgumentError, match="write 'halves:0' to 'halves:1'"):
            await session.run("y:0", {"x": ROWS, "halves": [1.0]})
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"no outputs.*cannot be fed"):
            await session.run("y:0", {"x": ROWS, "nothing": 1.0})
        with pytest.raises(fe.errors.InvalidArgumentError, match="fed twice: x:0"):
            await session.run("y:0", {"x": ROWS, "x:0": ROWS})
        with pytest.raises(fe.errors.NotFoundError, match="no tensor 'xx:0' or 'xx'"):
            await session.run("y:0", {"xx": ROWS})


async def test_a_bare_name_among_fetches() -> None:
    async with fe.Session(doubled()) as session:
        assert await session.run(["y", "nothing"], {"x:0": ROWS}) == [None, None]
        call = session.make_callable({"a": ["y", "nothing"], "b": Pair("z", ("y:0",))}, ["x"])
        result = await call(ROWS)
        assert np.array_equal(result["a"][0], 2 * ROWS)
        assert result["a"][1] is None
        assert np.array_equal(result["b"].first, -ROWS)
        graph = session.graph
        assert isinstance(graph, fe.Graph)
        operation = session.make_callable(fe.Operation(graph, "y"), ["x"])
        assert await operation(ROWS) is None


async def test_a_closed_session_says_so() -> None:
    session = fe.Session(doubled())
    await session.close()
    await session.close()
    with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
        await session.run("nothing")


def counter(graph: fe.Graph) -> None:
    variable = graph.ops.VariableV2(shape=[], dtype="int32", name="count")
    graph.ops.Assign(variable, graph.constant(0), name="init")
    graph.ops.AssignAdd(variable, graph.constant(1), name="increment")


async def test_sessions_with_one_resource_manager_share_variables() -> None:
    graph = fe.Graph()
    counter(graph)
    resources = fe.ResourceManager()
    async with fe.Session(graph, resources=resources) as first:
        await first.run("init")
        await first.run("increment")
    async with fe.Session(graph, resources=resources) as second:
        assert await second.run("count:0") == 1
    async with fe.Session(graph) as other:
        with pytest.raises(fe.errors.FailedPreconditionError, match="uninitialized value count"):
            await other.run("count:0")


def test_a_session_belongs_to_the_run_that_first_used_it() -> None:
    session = fe.Session(doubled())

    async def use() -> None:
        await session.run("nothing")

    trio.run(use)
    with pytest.raises(fe.errors.FailedPreconditionError, match=r"fe\.blocking\.Session"):
        trio.run(use)
    trio.run(session.close)


async def test_what_is_fetched_never_aliases_what_is_kept() -> None:
    graph = fe.Graph()
    kept = graph.constant(np.arange(4, dtype=np.float32), name="kept")
    view = graph.ops.Reshape(kept, graph.constant([2, 2]), name="view")
    x = graph.placeholder("float32", [4], name="x")
    through = graph.ops.Identity(x, name="through")
    async with fe.Session(graph) as session:
        for _ in range(2):
            fed = np.arange(4, dtype=np.float32)
            got = await session.run([kept, view, through], {x: fed})
            for array in got:
                assert array.ravel().tolist() == [0, 1, 2, 3]
                array[...] = -1
            assert fed.tolist() == [0, 1, 2, 3]


async def test_explain_shows_what_a_step_runs() -> None:
    async with fe.Session(doubled()) as session:
        text = session.explain("y:0", ["x:0"])
        assert "y = Add(x:0, x:0)" in text
        assert "z" not in text.splitlines()[0]
        assert session.explain("y:0", ["x:0"], dot=True).startswith("digraph")


async def test_a_target_of_an_unknown_scheme_is_refused_and_a_registered_one_is_used() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="known schemes"):
        fe.Session(doubled(), target="nowhere://x")

    class Elsewhere:
        async def run(self, fetches: Any, *_: Any, **__: Any) -> Any:
            return f"ran {fetches}"

        async def close(self) -> None:
            return None

    register_scheme("test-session", lambda target, graph, config: Elsewhere())
    async with fe.Session(doubled(), target="test-session://x") as session:
        assert await session.run("y:0") == "ran y:0"


async def test_run_metadata_is_filled_in() -> None:
    metadata = fe.RunMetadata()
    async with fe.Session(doubled()) as session:
        await session.run("y:0", {"x:0": ROWS}, run_metadata=metadata)
    assert metadata.items == 1
    assert metadata.wall_seconds > 0


async def test_the_memory_limit_refuses_before_it_allocates_and_names_the_holders() -> None:
    graph = fe.Graph()
    n = graph.placeholder("int32", [], name="n")
    shape = graph.ops.Pack([n, n])
    big = graph.ops.Fill(shape, graph.constant(1.0), name="big")
    twice = graph.ops.Add(big, big, name="twice")
    config = fe.Config(memory_limit_bytes=10_000_000)
    async with fe.Session(graph, config=config) as session:
        metadata = fe.RunMetadata()
        assert (await session.run(twice, {n: 100}, run_metadata=metadata)).shape == (100, 100)
        assert metadata.peak_bytes is not None
        assert metadata.peak_bytes >= 80_000
        with pytest.raises(fe.errors.ResourceExhaustedError, match="memory_limit_bytes"):
            await session.run(twice, {n: 1_000_000})
        with pytest.raises(fe.errors.ResourceExhaustedError, match="'big' holds 5,760,000"):
            await session.run(twice, {n: 1200})
        assert (await session.run(twice, {n: 10})).shape == (10, 10)


@pytest.mark.parametrize("size", [1_000, 5_000_000])
async def test_a_variables_memory_is_counted_whether_a_thread_set_it_or_not(size: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [size], name="x")
    variable = graph.ops.VariableV2(shape=[size], dtype="float32")
    assigned = graph.ops.Assign(variable, x)
    metadata = fe.RunMetadata()
    async with fe.Session(graph, config=fe.Config(memory_limit_bytes=1 << 30)) as session:
        await session.run(assigned, {x: np.zeros(size, np.float32)}, run_metadata=metadata)
    assert metadata.heavy_items == (size > 1_000)
    assert list(metadata.devices.values()) == [4 * size]


async def test_out_of_memory_is_resource_exhausted() -> None:
    graph = fe.Graph()
    n = graph.placeholder("int64", [1], name="n")
    big = graph.ops.Fill(n, graph.constant(1.0), index_type="int64")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.ResourceExhaustedError):
            await session.run(big, {n: [2**60]})


def test_config_takes_the_environment_and_refuses_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_MEMORY_LIMIT_BYTES", "1000")
    monkeypatch.setenv("FLOWENGINE_FOLD_CONSTANTS", "0")
    settings = fe.Config().resolved()
    assert settings.memory_limit_bytes == 1000
    assert not settings.fold_constants
    assert fe.Config(memory_limit_bytes=5, fold_constants=True).resolved().memory_limit_bytes == 5
    monkeypatch.setenv("FLOWENGINE_FOLD_CONSTANTS", "maybe")
    with pytest.raises(fe.errors.InvalidArgumentError, match="FLOWENGINE_FOLD_CONSTANTS"):
        fe.Config().resolved()


@pytest.mark.parametrize("devices", [1, 2])
async def test_errors_name_the_device_where_there_are_several(devices: int) -> None:
    graph = fe.Graph()
    n = graph.placeholder("int32", [1], name="n")
    graph.ops.Reshape(graph.constant([1.0, 2.0]), n, name="shaped")
    async with fe.Session(graph, config=fe.Config(device_count={"CPU": devices})) as session:
        steps: list[Callable[[], Awaitable[Any]]] = [
            lambda: session.run("shaped:0", {"n": [7]}),
            lambda: session.make_callable("shaped:0", ["n"])([7]),
        ]
        for step in steps:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await step()
            assert caught.value.device == "/job:localhost/replica:0/task:0/device:CPU:0"
            assert ("on /job:localhost" in str(caught.value)) == (devices == 2)
            assert str(caught.value).startswith("Reshape 'shaped'")
