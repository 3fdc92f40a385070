"""Maps that parse records are made by one call for each batch, and say the same as one for each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.data.functions import GraphFunction
from flowengine.ir.proto.example_pb2 import Example
from flowengine.resources.container import ResourceManager

Dataset = fe.data.Dataset


def columns(line: fe.Tensor) -> tuple[fe.Tensor, ...]:
    ops = line.graph.ops
    number, text = ops.DecodeCSV(line, [np.zeros(1, np.int32), np.array([b""], object)])
    return ops.Cast(number, DstT="int64"), text


def one_by_one(line: fe.Tensor) -> tuple[fe.Tensor, ...]:
    """The same with an op of which nobody says that it works row by row."""
    number, text = columns(line)
    return line.graph.ops.Abs(number), text


async def gone_through(dataset: fe.data.Dataset) -> list[Any]:
    found: list[Any] = []
    async with dataset.elements() as elements:
        while True:
            try:
                element = await elements.__anext__()
            except StopAsyncIteration:
                return found
            except OpError as error:
                found.append(type(error))
            else:
                found.append([np.asarray(part).tolist() for part in element])


@given(
    st.lists(st.sampled_from(["1,a", "22,b", ",c", "no,d"]), max_size=25),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([1, 2, -1]),
)
def test_rows_and_errors_are_the_same(lines: list[str], size: int, drop: bool, parallel: int) -> None:
    source = Dataset.from_slices(np.array(lines, object).reshape(len(lines)))

    def batches(function: Any) -> fe.data.Dataset:
        return source.map(function, parallel=parallel).batch(size, drop_remainder=drop)

    async def both() -> None:
        assert await gone_through(batches(columns)) == await gone_through(batches(one_by_one))

    trio.run(both)


def function_of(build: Callable[..., Any], dtype: str = "string") -> GraphFunction:
    return GraphFunction(build, [fe.dtypes.as_dtype(dtype)], [TensorShape([])])


def parser(shape: list[int | None]) -> Callable[[fe.Tensor], Any]:
    def parse(record: fe.Tensor) -> Any:
        *_, found = record.graph.ops.ParseSingleExample(
            record,
            [np.array(7, np.int64) if not shape else np.zeros(0, np.int64)],
            num_sparse=0,
            sparse_keys=[],
            dense_keys=["n"],
            sparse_types=[],
            dense_shapes=[shape],
        )
        return found[0]

    return parse


def record(*numbers: int) -> bytes:
    example = Example()
    example.features.feature["n"].int64_list.value.extend(numbers)
    return example.SerializeToString()


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), min_size=1, max_size=20),
    st.integers(1, 9),
)
def test_examples_are_parsed_as_batches(numbers: list[int | None], size: int) -> None:
    records = np.array([b"" if each is None else record(each) for each in numbers], object)
    batches = Dataset.from_slices(records).map(parser([])).batch(size)
    assert function_of(parser([])).of_rows(1) is not None
    found = [number for batch in trio.run(gone_through, batches) for number in np.ravel(batch).tolist()]
    assert found == [7 if each is None else each for each in numbers]


def refused(build: Callable[..., Any], dtype: str = "string") -> None:
    assert function_of(build, dtype).of_rows(1) is None


def test_functions_of_which_nobody_says_that_they_work_row_by_row_are_left_alone() -> None:
    refused(one_by_one)
    refused(parser([None]))  # each example has as many values as it has
    refused(lambda line: line.graph.constant(3.0))  # the same for all rows
    refused(
        lambda line: (columns(line)[1], line.graph.ops.RandomUniform(np.zeros(0, np.int32), dtype="float32"))
    )
    refused(lambda line: line.graph.ops.DecodeCSV(np.array(["1"], object), [line])[0])  # rows as defaults

    def after_a_check(line: fe.Tensor) -> fe.Tensor:
        with line.graph.control_dependencies([line.graph.ops.Assert(line.graph.constant(True), [line])]):
            return line.graph.ops.Identity(line)

    refused(after_a_check)


def test_what_does_not_depend_on_the_row_may_be_computed() -> None:
    def build(line: fe.Tensor) -> Any:
        default = line.graph.ops.Reshape(line.graph.constant([3.0]), np.ones(1, np.int32))
        return line.graph.ops.DecodeCSV(line, [default])

    made = function_of(build).of_rows(1)
    assert made is not None
    lines = np.array([b"1.5", b'""', b"2"], object)
    (found,) = trio.run(made, (lines,), ResourceManager())
    assert found.tolist() == [1.5, 3.0, 2.0]
