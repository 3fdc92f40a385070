"""Which elements of the input meet which of the output, in ops that slide a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def _pads(size: int, k: int, stride: int, dilation: int, padding: bytes) -> tuple[int, int, int]:
    """Elements added before and after one dimension, and the size of the result."""
    span = (k - 1) * dilation + 1
    if padding == b"VALID":
        return 0, 0, max(0, -(-(size - span + 1) // stride))
    out = -(-size // stride)
    total = max((out - 1) * stride + span - size, 0)
    return total // 2, total - total // 2, out


def windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: bytes,
    explicit: Sequence[int] = (),
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]]:
    """The spatial output shape, and (output place, input place, kernel place) of all pairs that meet."""
    plans = []
    for i, size in enumerate(shape):
        if padding == b"EXPLICIT":
            before, after = explicit[2 * i], explicit[2 * i + 1]
            out = (size + before + after - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
            plans.append((before, after, out))
        else:
            plans.append(_pads(size, kernel[i], strides[i], dilations[i], padding))
    outs = tuple(p[2] for p in plans)

    def pairs() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        for o in np.ndindex(*outs):
            for k in np.ndindex(*kernel):
                place = tuple(o[i] * strides[i] + k[i] * dilations[i] - plans[i][0] for i in range(len(outs)))
                if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
                    yield o, place, k

    return outs, pairs()
