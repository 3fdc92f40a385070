"""Steps that read a variable or table before anything has given it a value: what to do comes first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError

#: Behind the node's name and before TensorFlow's own words.
ADVICE = r"variable 'v' has no value: call session\.initialize\(\) or restore a checkpoint\. "


@pytest.mark.parametrize(
    ("use_resource", "words"),
    [
        (True, "Error while reading resource variable v from container localhost: it was not initialized"),
        (False, "Attempting to use uninitialized value v"),
    ],
)
async def test_a_read_says_what_to_call_and_then_tensorflows_words(use_resource: bool, words: str) -> None:
    graph = fe.Graph()
    variable = graph.variable(1.0, name="v", use_resource=use_resource)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.FailedPreconditionError, match=rf"'[^']*': {ADVICE}{words}"):
            await session.run(variable)


@pytest.mark.parametrize("use_resource", [True, False])
async def test_an_update_says_what_to_call(use_resource: bool) -> None:
    graph = fe.Graph()
    variable = graph.variable(np.zeros(3, np.float32), name="v", use_resource=use_resource)
    updates = (variable.assign_add(np.ones(3, np.float32)), variable.scatter_add([0], np.ones(1, np.float32)))
    async with fe.Session(graph) as session:
        for update in updates:
            with pytest.raises(OpError, match=f"'[^']*': {ADVICE}"):
                await session.run([], targets=[update])


async def test_saving_says_what_to_call(tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.variable(1.0, name="v")
    async with fe.Session(graph) as session:
        with pytest.raises(
            fe.errors.FailedPreconditionError, match=r"^variables without a value cannot be saved: "
        ):
            await fe.train.Saver().save(session, tmp_path / "model")


async def test_a_table_that_is_not_filled_says_what_to_call() -> None:
    graph = fe.Graph()
    table = graph.ops.HashTableV2(key_dtype="int64", value_dtype="int64")
    size = graph.ops.LookupTableSizeV2(table)
    found = graph.ops.LookupTableFindV2(table, np.array([1], np.int64), np.int64(0))
    async with fe.Session(graph) as session:
        for fetch in (size, found):
            with pytest.raises(
                fe.errors.FailedPreconditionError, match=r"is not filled: call session\.initialize"
            ):
                await session.run(fetch)
