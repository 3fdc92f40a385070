"""Promises of new memory that kernels keep: later nodes may write to such an output."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import Kernel
from tests.oprecords.found import RECORDS
from tests.oprecords.record import Built, OpRecord


def _fresh(record: OpRecord) -> list[Kernel]:
    """The kernels of an op that compute in the call and promise new memory."""
    held = any(
        arg.is_ref or (arg.type is not None and arg.type.name == "resource")
        for arg in record.definition.inputs
    )
    return [
        kernel
        for kernel in load_all().candidates(record.op)
        if kernel.fresh and not held and not kernel.is_async and not kernel.takes_context
    ]


def _arrays(values: Any) -> Iterator[np.ndarray[Any, Any]]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple | list):
            yield from _arrays(value)


@pytest.mark.parametrize(
    "record", [record for record in RECORDS if _fresh(record)], ids=lambda record: record.op
)
def test_new_memory_is_shared_with_nothing(record: OpRecord) -> None:
    """Not with an input, not with another output, not with what the same call gave before."""
    graph = fe.Graph()
    types = next(record.combinations())
    for number, sample in enumerate(record.samples):
        built = Built(graph, record, sample, types, "known", f"node{number}")
        given = [tuple(value) if isinstance(value, list) else value for value in built.inputs]
        for kernel in _fresh(record):
            if not kernel.serves(built.node):
                continue
            call = kernel.bind(built.node)
            with np.errstate(all="ignore"):
                made = [call(*given) for _ in range(2)]
            outputs = list(_arrays(made))
            for x, y in itertools.combinations(outputs, 2):
                assert not np.shares_memory(x, y), f"{kernel.provider}: two outputs of {sample}"
            for x, y in itertools.product(outputs, _arrays(given)):
                assert not np.shares_memory(x, y), f"{kernel.provider}: an input of {sample}"
