"""Nodes that follow a convolution, as forms of what it does to its result: see `after`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.numpy.fused import Follower
from flowengine.kernels.onednn.layers.post_ops import RELU6_FORM, RELU_FORM, ZERO

#: (the node's other inputs, channels of the result) -> forms and operands; None where they do not fit.
_Reading = Callable[[Sequence[Any], int], "list[tuple[str, Array]] | None"]
#: The node's other inputs -> operands, where inputs of these shapes have been read before.
_Values = Callable[[Sequence[Any]], Sequence[Array]]
#: How many inputs it takes besides the result before it, and how they are read for the first time and again.
Taken = tuple[int, _Reading, _Values]

_SUMS: Final = {"Add": "add", "AddV2": "add", "Mul": "mul", "Sub": "sub"}
_CLIPS: Final = {"Relu": RELU_FORM, "Relu6": RELU6_FORM}
_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})


def absorbed(followers: Sequence[Follower], first: bool) -> tuple[Taken, ...]:
    """How to read those that can be computed with the convolution, from the one next to it on.

    first   whether channels come before height and width
    """
    taken: list[Taken] = []
    for node, position in followers:
        reading: _Reading
        values: _Values = _as_they_are
        layout = (node.attrs.get("data_format", b"NHWC") == b"NCHW") == first
        if node.op in ("BiasAdd", "BiasAddV1") and layout and not first:
            reading = _bias
        elif node.op in _NORMS and layout and not node.attrs["is_training"] and position == 0:
            reading, values = _normalization(float(node.attrs["epsilon"]))
        elif node.op in _CLIPS:
            reading, values = _clip(_CLIPS[node.op]), _zero
        elif node.op in _SUMS and not first and (position == 0 or node.op != "Sub"):
            reading = _operand(_SUMS[node.op])
        else:
            break
        taken.append((len(node.inputs) - 1, reading, values))
    return tuple(taken)


def forms_of(
    taken: Sequence[Taken], others: Sequence[Any], channels: int
) -> tuple[tuple[str, ...], list[Array]] | None:
    """The forms of what follows, and its operands; None where a shape says that it must run by itself."""
    forms: list[str] = []
    operands: list[Array] = []
    start = 0
    for count, reading, _ in taken:
        read = reading(others[start : start + count], channels)
        if read is None:
            return None
        start += count
        forms.extend(form for form, _ in read)
        operands.extend(operand for _, operand in read)
    return tuple(forms), operands


def operands_of(taken: Sequence[Taken], others: Sequence[Any]) -> list[Array]:
    """The operands that `forms_of` gives, for inputs of the same shapes."""
    operands: list[Array] = []
    start = 0
    for count, _, values in taken:
        operands += values(others[start : start + count])
        start += count
    return operands


def fits(forms: Sequence[str], operands: Sequence[Array], shape: tuple[int, ...]) -> bool:
    """Whether operands that are as large as the result have its shape."""
    return all(
        operand.shape == shape
        for form, operand in zip(forms, operands, strict=True)
        if form.endswith("whole")
    )


def _clip(form: str) -> _Reading:
    return lambda others, channels: [(form, ZERO)]


def _zero(others: Sequence[Any]) -> Sequence[Array]:
    return (ZERO,)


def _as_they_are(others: Sequence[Any]) -> Sequence[Array]:
    return (np.ascontiguousarray(others[0]),)


def _bias(others: Sequence[Any], channels: int) -> list[tuple[str, Array]] | None:
    (bias,) = others
    return [("add channel", np.ascontiguousarray(bias))] if bias.shape == (channels,) else None


def _operand(function: str) -> _Reading:
    def read(others: Sequence[Any], channels: int) -> list[tuple[str, Array]] | None:
        value: Array = np.ascontiguousarray(others[0])
        if value.ndim > 4:
            return None
        if value.size == 1:
            reach = "number"
        elif value.size == channels == value.shape[-1]:
            reach = "channel"
        elif value.ndim == 4:
            reach = "whole"
        else:
            return None
        return [(f"{function} {reach}", value)]

    return read


def _normalization(epsilon: float) -> tuple[_Reading, _Values]:
    """(x - mean) * factor + offset."""
    added = np.float32(epsilon)

    def values(others: Sequence[Any]) -> Sequence[Array]:
        scale, offset, mean, variance = others
        factor: Array = scale / np.sqrt(variance + added)
        return np.ascontiguousarray(mean), factor, np.ascontiguousarray(offset)

    def read(others: Sequence[Any], channels: int) -> list[tuple[str, Array]] | None:
        for vector in others:
            if vector.shape != (channels,) or vector.dtype != np.float32:
                return None
        forms = ("sub channel", "mul channel", "add channel")
        return list(zip(forms, values(others), strict=True))

    return read, values
