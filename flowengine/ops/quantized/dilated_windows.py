"""How a kernel goes over a dilated input, and how large the result is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension


@dataclass(frozen=True, slots=True)
class DilatedWindows:
    """How a kernel goes over an input, one number for each spatial dimension.

    lower   rows and columns of zero points before the input; `sizes` counts those behind it as well
    sizes   of the output
    """

    strides: tuple[int, ...]
    input_dilations: tuple[int, ...]
    kernel_dilations: tuple[int, ...]
    lower: tuple[int, ...]
    sizes: tuple[int, ...]


def _each(attrs: Mapping[str, Any], name: str, count: int) -> tuple[int, ...]:
    """A number for each spatial dimension: 1 where the attribute is empty."""
    given = tuple(attrs[name]) or (1,) * count
    if len(given) != count:
        raise InvalidArgumentError(
            f"{name} must have a number for each of {count} spatial dimensions, but is {list(given)}"
        )
    if min(given) < 1:
        raise InvalidArgumentError(f"The numbers of {name} must be at least 1, but are {list(given)}")
    return given


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def windows_of(
    attrs: Mapping[str, Any], input_sizes: Sequence[int], kernel_sizes: Sequence[int]
) -> DilatedWindows:
    """How a kernel of these spatial sizes goes over an input by a node's attributes.

    Raises InvalidArgumentError for attributes that do not fit the number of dimensions or each other, and for
    a kernel that is larger than the padded input by a stride or more.
    """
    count = len(input_sizes)
    strides, lhs, rhs = (
        _each(attrs, name, count) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    whole = [_dilated(size, by) for size, by in zip(input_sizes, lhs, strict=True)]
    reach = [_dilated(size, by) for size, by in zip(kernel_sizes, rhs, strict=True)]
    padding, explicit = attrs["padding"], tuple(attrs["explicit_padding"])
    if padding != b"EXPLICIT" and explicit:
        raise InvalidArgumentError(
            f"explicit_padding must be empty where padding is {padding.decode()}, but is {list(explicit)}"
        )
    if padding == b"EXPLICIT":
        if len(explicit) != 2 * count:
            raise InvalidArgumentError(
                f"explicit_padding must have two numbers for each of {count} spatial dimensions, but is "
                f"{list(explicit)}"
            )
        if min(explicit) < 0:
            raise InvalidArgumentError(f"explicit_padding must not be negative, but is {list(explicit)}")
        lower = explicit[::2]
        total = [before + after for before, after in zip(lower, explicit[1::2], strict=True)]
    elif padding == b"SAME":
        total = [
            max((-(-size // by) - 1) * by + wide - size, 0)
            for size, by, wide in zip(whole, strides, reach, strict=True)
        ]
        lower = tuple(each // 2 for each in total)
    else:
        total, lower = [0] * count, (0,) * count
    sizes = []
    for size, more, wide, by in zip(whole, total, reach, strides, strict=True):
        room = size + more - wide + by
        if room <= -by:
            raise InvalidArgumentError(
                f"The kernel reaches over {wide} places, but the padded input has {size + more}, and the "
                f"stride is {by}"
            )
        sizes.append(max(room, 0) // by)
    return DilatedWindows(strides, lhs, rhs, tuple(lower), tuple(sizes))


def check_groups(
    attrs: Mapping[str, Any], batch: Dimension, features: Dimension, kernel: Sequence[Dimension]
) -> None:
    """Refuse groups that do not divide what they part, as far as the sizes are known.

    kernel   its output features and its input features

    Raises InvalidArgumentError.
    """
    groups, batches = attrs["feature_group_count"], attrs["batch_group_count"]
    for name, count in (("feature_group_count", groups), ("batch_group_count", batches)):
        if count < 1:
            raise InvalidArgumentError(f"{name} must be at least 1, but is {count}")
    outputs, inputs = kernel[:2]
    for what, size, name, count in (
        ("batch of the input", batch, "batch_group_count", batches),
        ("features of the input", features, "feature_group_count", groups),
        ("output features of the kernel", outputs, "feature_group_count", groups),
        ("output features of the kernel", outputs, "batch_group_count", batches),
    ):
        if size is not None and size % count:
            raise InvalidArgumentError(f"The {what} ({size}) must be a multiple of {name} ({count})")
    if features is not None and inputs is not None and features // groups != inputs:
        raise InvalidArgumentError(
            f"The kernel must have {features} / {groups} input features (lhs has {features}, "
            f"feature_group_count is {groups}), but has {inputs}"
        )


__all__ = ["DilatedWindows", "check_groups", "windows_of"]
