"""Exceptions of NumPy in the words of the errors that a user knows."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from flowengine.core.errors import InternalError, InvalidArgumentError, OpError, ResourceExhaustedError
from flowengine.runtime.failures import as_op_error, first_of, leaves_of


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (4,)), "Incompatible shapes: [2,3] vs. [4]"),
        (((2, 3), (0,)), "Incompatible shapes: [2,3] vs. [0]"),
        (((3, 1), (3, 2), (4,)), "Incompatible shapes: [3,1] vs. [3,2] vs. [4]"),
    ],
)
def test_shapes_that_do_not_broadcast(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    arrays = [np.zeros(shape, bool) for shape in shapes]
    with pytest.raises(ValueError, match="broadcast") as caught:
        np.where(*arrays) if len(arrays) == 3 else np.logical_and(*arrays)
    error = as_op_error(caught.value)
    assert isinstance(error, InvalidArgumentError)
    assert error.message == message
    assert error.__cause__ is caught.value


def test_other_errors_keep_their_text() -> None:
    made: list[OpError] = [as_op_error(e) for e in (ValueError("odd"), MemoryError("big"), KeyError("k"))]
    assert [type(e) for e in made] == [InvalidArgumentError, ResourceExhaustedError, InternalError]
    assert made[0].message == "odd"
    known = InvalidArgumentError("as it is")
    assert as_op_error(known) is known


def test_leaves_come_in_the_order_in_which_they_were_raised() -> None:
    errors = [ValueError(str(number)) for number in range(5)]
    group = BaseExceptionGroup(
        "", [errors[0], ExceptionGroup("", [errors[1], ExceptionGroup("", errors[2:4])]), errors[4]]
    )
    assert list(leaves_of(group)) == errors
    assert list(leaves_of(errors[0])) == [errors[0]]


def test_an_interrupt_is_before_an_error() -> None:
    interrupt = KeyboardInterrupt()
    assert (
        first_of(BaseExceptionGroup("", [ValueError(), ExceptionGroup("", [KeyError()]), interrupt]))
        is interrupt
    )


async def test_an_error_is_before_the_cancellation_that_it_brought() -> None:
    error = ValueError()
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as cancelled:
            await trio.lowlevel.checkpoint()
    assert first_of(BaseExceptionGroup("", [cancelled.value, error])) is error
    assert first_of(BaseExceptionGroup("", [BaseExceptionGroup("", [cancelled.value])])) is cancelled.value
