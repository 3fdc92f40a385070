"""Threads that parse batches take turns; nobody waits long for one, and the event loop not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flowengine.core import abandonment, dtypes
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto.example_pb2 import Example
from flowengine.kernels.io import decoding, examples, turns

ROWS = 20


def _strings(values: list[bytes]) -> Any:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _example(number: int) -> bytes:
    example = Example()
    example.features.feature["a"].int64_list.value.append(number)
    return example.SerializeToString(deterministic=True)


def parsed_examples() -> Any:
    return examples.parse_example(
        _strings([_example(number) for number in range(ROWS)]),
        _strings([]),
        (),
        (b"a",),
        (np.empty(0, np.int64),),
        sparse_types=(),
        Tdense=(dtypes.int64,),
        dense_shapes=(TensorShape([]),),
    )


def parsed_lines() -> Any:
    return decoding.decode_csv(
        _strings([b"%d" % number for number in range(ROWS)]),
        (np.array([0], np.int64),),
        OUT_TYPE=(dtypes.int64,),
        field_delim=b",",
        use_quote_delim=True,
        na_value=b"",
        select_cols=(),
    )


class _TakenTurn:
    """The turn of another thread."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return False


class _Wanted:
    is_given_up = False


@pytest.mark.parametrize("parse", [parsed_examples, parsed_lines])
def test_nobody_waits_long_for_a_turn_and_the_loop_not_at_all(
    parse: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = _TakenTurn()
    monkeypatch.setattr(turns, "_TURN", turn)
    found = [parse()]
    abandonment.begin(_Wanted())
    try:
        found.append(parse())
    finally:
        abandonment.begin(None)
    assert turn.waits == [0, turns._TURN_SECONDS]
    for values in found:
        assert values.tolist() == list(range(ROWS))
