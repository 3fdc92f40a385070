"""Every recorded op: kernel, types, shape function, GraphDef form, compiled form, errors.

`found.py` gathers the records from the families' folders. On strict arrays they are run by another module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.core.shapes import TensorShape
from flowengine.runtime.planning import tiers
from tests.effort import IS_NIGHTLY
from tests.oprecords.found import RECORDS
from tests.oprecords.record import TOLERANCE, BadSample, Built, OpRecord, plain, wanted_attrs
from tests.provided import marks

_RECORDS = [pytest.param(record, id=record.op, marks=marks(record.op)) for record in RECORDS]
_CASES = [
    pytest.param(
        record, types, id="-".join([record.op, *dict.fromkeys(types.values())]), marks=marks(record.op)
    )
    for record in RECORDS
    for types in record.combinations()
]
_ALL_BAD = [(record, each) for record in RECORDS for each in record.bad]
_BAD = [
    pytest.param(record, each, id=f"{record.op}-{i}", marks=marks(record.op))
    for i, (record, each) in enumerate(_ALL_BAD)
]


@pytest.fixture(autouse=True)
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before


def _build_all(record: OpRecord, types: Mapping[str, str], form: str) -> tuple[fe.Graph, list[Built]]:
    """One graph with a node for each sample; those with types of their own stand in the first only."""
    graph = fe.Graph()
    first = next(record.combinations()) == types
    type_attrs = {a.name for a in record.definition.attrs if a.type == "type"}
    return graph, [
        Built(graph, record, each, types, form, f"node{i}")
        for i, each in enumerate(record.samples)
        if first or type_attrs.isdisjoint(each.attrs)
    ]


async def _play(graph: fe.Graph, nodes: Sequence[Built], *, compiled: bool) -> list[list[Any]]:
    """Return the outputs of each node, or the values that it leaves in its variables."""
    results = []
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
        for built in nodes:
            if built.setup:
                await session.run([], targets=built.setup)
            values = await session.run(built.fetches, built.feeds, targets=[built.name])
            if built.record.updates:
                values = await session.run([f"{v.partition(':')[0]}:0" for v in built.variables])
            results.append(list(values))
    return results


def _bits(value: Any) -> tuple[Any, ...]:
    array = to_array(value)
    content = array.tolist() if array.dtype == object else array.tobytes()
    return array.dtype, array.shape, content


@pytest.mark.parametrize(("record", "types"), _CASES)
async def test_gives_what_the_reference_gives(record: OpRecord, types: Mapping[str, str]) -> None:
    graph, nodes = _build_all(record, types, "unknown")
    before = [{name: _bits(value) for name, value in built.feeds.items()} for built in nodes]
    interpreted = await _play(graph, nodes, compiled=False)
    for built, values, fed in zip(nodes, interpreted, before, strict=True):
        for name, value in built.feeds.items():
            assert _bits(value) == fed[name], f"{record.op} has written into its input {name}"
        judge(built, values)
    if record.random:
        return
    again = fe.Graph.from_graph_def(graph.to_graph_def())
    compiled = await _play(again, nodes, compiled=True)
    for got, want in zip(compiled, interpreted, strict=True):
        assert [_bits(v) for v in got] == [_bits(v) for v in want], "the compiled tier differs"


def judge(built: Built, values: Sequence[Any]) -> None:
    """Compare what a sample gave with its reference, its check or what was written down."""
    record, node = built.record, built.node
    arrays = [plain(v) for v in values]
    if record.updates:
        declared = [next(v.dtype for v in _flat(built.inputs)) for _ in arrays]
    else:
        declared = [dtype.as_numpy_dtype for dtype in node.output_types]
    assert [a.dtype for a in arrays] == declared
    if record.check is not None:
        record.check(arrays, built.inputs, **wanted_attrs(record.check, node))
        return
    expected = built.expected()
    assert len(arrays) == len(expected)
    for index, (array, want) in enumerate(zip(arrays, expected, strict=True)):
        where = partial("{0.op} {1}, output {2}".format, record, built.sample, index)
        _compare(array, to_array(want), record.loose, where)


def _flat(inputs: Sequence[Any]) -> Iterator[Any]:
    for value in inputs:
        yield from value if isinstance(value, list) else [value]


def _compare(got: Any, want: Any, loose: float, where: Callable[[], str]) -> None:
    """Compare an output; `where` prints arrays, which takes long, so only a failure calls it."""
    assert got.shape == want.shape, where()
    if got.dtype == object:
        assert got.tolist() == want.tolist(), where()
        return
    with np.errstate(all="ignore"):
        tolerance = TOLERANCE.get(str(got.dtype), 0.0) * loose
        if tolerance == 0.0:
            same = (got == want.astype(got.dtype)) | ((got != got) & (want != want))
            assert np.all(same), f"{where()}: {got} is not {want}"
            return
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        rounded = want.astype(got.dtype).astype(wide)
        if not np.allclose(got.astype(wide), rounded, tolerance, tolerance, equal_nan=True):
            np.testing.assert_allclose(got.astype(wide), rounded, tolerance, tolerance, err_msg=where())


@pytest.mark.parametrize("record", _RECORDS)
async def test_shape_function_tells_the_truth(record: OpRecord) -> None:
    types = next(record.combinations())
    shapes: list[list[tuple[int, ...]]] = []
    for form in ("unknown", "ranked", "known", "constant"):
        graph, nodes = _build_all(record, types, form)
        # The declared shapes of placeholders change no value: the shapes found for the first form hold.
        if form in ("unknown", "constant") or IS_NIGHTLY:
            shapes = await _shapes(graph, nodes)
        for built, found in zip(nodes, shapes, strict=True):
            for fetch, shape in zip(built.fetches, found, strict=True):
                said = graph.tensor(fetch).shape
                told = f"{form} inputs, {fetch} is {shape}, said {said}"
                assert said.is_compatible_with(TensorShape(shape)), f"{record.op} {built.sample}: {told}"
                if form == "constant" and not record.partial:
                    assert said.is_fully_defined, f"{record.op} {built.sample}: {told}"


async def _shapes(graph: fe.Graph, nodes: Sequence[Built]) -> list[list[tuple[int, ...]]]:
    """Return the shapes of each node's outputs."""
    found = []
    # Folding would compute constants without the node; feeds of the whole input forbid it.
    async with fe.Session(graph) as session:
        for built in nodes:
            if built.setup:
                await session.run([], targets=built.setup)
            values = await session.run(built.fetches, built.feeds)
            found.append([to_array(value).shape for value in values])
    return found


@pytest.mark.parametrize("record", _RECORDS)
def test_comes_back_from_a_graph_def(record: OpRecord) -> None:
    graph, nodes = _build_all(record, next(record.combinations()), "known")
    again = fe.Graph.from_graph_def(graph.to_graph_def().SerializeToString(), strict=True)
    for built in nodes:
        node = again[built.name]
        assert (node.op, node.inputs, node.output_types) == (
            built.node.op,
            built.node.inputs,
            built.node.output_types,
        )
        assert node.attrs.keys() == built.node.attrs.keys()
        for name, value in node.attrs.items():
            if not hasattr(value, "decode") and not _is_tensor(value):
                assert value == built.node.attrs[name], name


def _is_tensor(value: Any) -> bool:
    return type(value).__name__ == "TensorAttr"


async def _build_and_play(record: OpRecord, each: BadSample, form: str) -> None:
    graph = fe.Graph()
    await _play(
        graph, [Built(graph, record, each, next(record.combinations()), form, "node")], compiled=False
    )


@pytest.mark.parametrize(("record", "each"), _BAD)
@pytest.mark.parametrize("form", ["unknown", "constant"])
async def test_refuses(record: OpRecord, each: BadSample, form: str) -> None:
    error = getattr(fe.errors, each.error)
    with pytest.raises(error) as caught:
        await _build_and_play(record, each, form)
    if form == "unknown":
        assert each.message in str(caught.value)
