"""Hyperparameters of a run for TensorBoard's page of them: what they are, when the run began, how it ended.

Each is a value of a Summary without a tensor's content: all of it is in the metadata of the plugin.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.wire import bytes_field, field
from flowengine.kernels.io.summary_fields import double_field
from flowengine.tools.summaries.values import TENSOR, checked_tag, readable, value_of

#: How a run ended, as the plugin counts it.
SUCCESS, FAILURE = 1, 2
#: Types of hyperparameters.
_STRING, _BOOL, _FLOAT = 1, 2, 3
_NOTHING: Final = np.float32(0)

HyperparameterValue = bool | int | float | str


def experiment(hparams: Mapping[str, Any], metrics: Sequence[str], now: float) -> bytes:
    """The value that names hyperparameters with their types, and the tags of the metrics."""
    infos = b"".join(
        bytes_field(4, bytes_field(1, checked_tag(name).encode()) + field(4, _typed(name, value)[0]))
        for name, value in hparams.items()
    )
    shown = b"".join(
        bytes_field(5, bytes_field(1, bytes_field(2, checked_tag(tag).encode()))) for tag in metrics
    )
    return _value("experiment", 2, double_field(3, now) + infos + shown)


def session_start(hparams: Mapping[str, Any], group: str, now: float) -> bytes:
    """The value with which a run begins: its hyperparameters, and the group of runs that share them."""
    entries = b"".join(
        bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, _typed(name, value)[1]))
        for name, value in hparams.items()
    )
    named = bytes_field(4, checked_tag(group).encode()) if group else b""
    return _value("session_start_info", 3, entries + named + double_field(5, now))


def session_end(status: int, now: float) -> bytes:
    """The value with which a run ends: SUCCESS, or FAILURE."""
    return _value("session_end_info", 4, field(1, status) + double_field(2, now))


def _value(name: str, number: int, message: bytes) -> bytes:
    content = bytes_field(number, message)
    return value_of(f"_hparams_/{name}", "hparams", TENSOR, np.asarray(_NOTHING), content=content)


def _typed(name: str, value: Any) -> tuple[int, bytes]:
    """The type of a hyperparameter, and its value as a `google.protobuf.Value`."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return _BOOL, field(4, int(value))
    if isinstance(value, str):
        return _STRING, bytes_field(3, readable(value))
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            raise InvalidArgumentError(
                f"the hyperparameter '{name}' is beyond float64: write str(value)"
            ) from None
        # A member of a oneof is written also where it is 0.
        return _FLOAT, b"\x11" + struct.pack("<d", number)
    raise InvalidArgumentError(
        f"the hyperparameter '{name}' is a number, a text or a truth value, not {type(value).__name__}: "
        "write str(value)"
    )


__all__ = ["FAILURE", "SUCCESS", "HyperparameterValue", "experiment", "session_end", "session_start"]
