"""Rows of SQLite databases are what TensorFlow's SqlDataset gave: see `record_sql.py`."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError, OutOfRangeError, UnknownError

RECORDED = json.loads((Path(__file__).parent / "sql.json").read_text(encoding="utf-8"))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people ?#.db"
    with sqlite3.connect(path) as database:
        for statement in RECORDED["statements"]:
            database.execute(statement)
    database.close()
    return path


def shown(value: Any, dtype: str) -> Any:
    if isinstance(value, bytes):
        return ["string", base64.b64encode(value).decode()]
    assert np.asarray(value).dtype.name == dtype
    return [dtype, value.item()]


async def queried(path: Path, query: str, types: list[str], driver: bytes = b"sqlite") -> list[Any]:
    """The rows, and an error in its place."""
    graph = fe.Graph()
    kinds: dict[str, Any] = {"output_types": types, "output_shapes": [[]] * len(types)}
    rows = graph.ops.SqlDataset(driver, str(path), query, **kinds)
    iterator = graph.ops.IteratorV2(shared_name="rows", container="", **kinds)
    begin = graph.ops.MakeIterator(rows, iterator)
    following = graph.ops.IteratorGetNext(iterator, **kinds)
    found: list[Any] = []
    async with fe.Session(graph) as session:
        await session.run([], targets=[begin])
        while True:
            try:
                values = await session.run(list(following))
            except OutOfRangeError:
                return found
            except OpError as error:
                return [*found, {"error": type(error).__name__}]
            found.append([shown(*each) for each in zip(values, types, strict=True)])


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: str(case["query"]))
async def test_rows_are_those_of_tensorflow(people: Path, case: dict[str, Any]) -> None:
    assert await queried(people, case["query"], case["types"]) == case["elements"]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO people VALUES ('x', 1, 1, NULL, NULL)",
        "ATTACH DATABASE 'other.db' AS other",
        "PRAGMA journal_mode = WAL",
        "DROP TABLE people",
        "SELECT load_extension('x')",
    ],
)
async def test_a_query_writes_nothing_and_opens_no_other_file(people: Path, query: str) -> None:
    path = trio.Path(people)
    before = await path.read_bytes()
    assert await queried(people, query, ["string"]) == [{"error": UnknownError.__name__}]
    assert await path.read_bytes() == before
    assert [each.name for each in await path.parent.iterdir()] == [people.name]


async def test_many_rows_and_what_is_wrong(people: Path, tmp_path: Path) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 3000) SELECT i FROM n"
    assert [row[0][1] for row in await queried(people, many, ["int64"])] == list(range(3000))
    assert await queried(tmp_path / "none.db", many, ["int64"]) == [{"error": NotFoundError.__name__}]
    with pytest.raises(InvalidArgumentError, match="the only driver is 'sqlite'"):
        await queried(people, many, ["int64"], b"mysql")
    with pytest.raises(InvalidArgumentError, match="cannot be of type float32"):
        await queried(people, many, ["float32"])
