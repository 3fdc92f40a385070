"""Input pipelines give what TensorFlow's own gave: see `record_pipelines.py` for how they were recorded."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError

HERE = Path(__file__).parent


def _cases() -> list[Any]:
    cases = []
    for kind, version in [*itertools.product(("pipelines", "parsing"), (1, 2)), ("numbered", 2)]:
        path = HERE / f"{kind}_{version}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            cases.append(pytest.param(case, id=f"{kind}-{case['name']}-{version}"))
    return cases


def shown(value: Any) -> list[Any]:
    array = np.asarray(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)
    values = array.reshape(-1).tolist()
    if array.dtype.kind == "O":
        return ["string", list(array.shape), [base64.b64encode(each).decode() for each in values]]
    return [array.dtype.name, list(array.shape), values]


async def elements_of(session: fe.Session, case: dict[str, Any]) -> list[Any]:
    """Return the elements of a pipeline, in the form in which TensorFlow's elements were recorded."""
    found: list[Any] = []
    await session.run([], targets=[case["init"]])
    while len(found) < 60:
        try:
            values = await session.run(case["fetches"])
        except OpError as error:
            found.append({"error": type(error).__name__})
            if found[-1] == {"error": "OutOfRangeError"}:
                break
        else:
            found.append([shown(value) for value in values])
    return found


def graph_of(case: dict[str, Any]) -> fe.Graph:
    """The graph as TensorFlow's client has built it."""
    return fe.Graph.from_graph_def(zlib.decompress(base64.b64decode(case["graph"])))


CASES = _cases()


@pytest.mark.parametrize("case", CASES)
async def test_elements_are_those_of_tensorflow(case: dict[str, Any]) -> None:
    async with fe.Session(graph_of(case)) as session:
        found = await elements_of(session, case)
        assert found == case["elements"]
        # Begun anew, it gives the same: but for what was drawn from seeds that nobody gave.
        again = await elements_of(session, case)
    assert again == case["elements"]
    assert not session.resources.services.count
