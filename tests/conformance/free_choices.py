"""Outputs that an op's definition leaves open in part, with the open part taken away.

How the pixels of an image are packed is its encoder's choice: what is compared are the pixels.

A singular or an eigenvector may be multiplied by any number of absolute value 1, and those of a null space
replaced by others that span it; the eigenvalues of a matrix that is not symmetric come in any order. What
is left after `settled` is the same for every right answer, single values given.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from flowengine.ir.wire import fields

Settle = Callable[[Sequence[Any]], Sequence[Any]]
#: Elements whose absolute values differ by less are taken for equals when the largest is chosen.
_DIGITS: Final = 3


def _phases(vectors: Any) -> Any:
    """(..., M, N) -> (..., 1, N): what to multiply columns by, so that the largest element is positive."""
    sizes = np.abs(vectors).round(_DIGITS)
    largest = np.take_along_axis(vectors, sizes.argmax(-2, keepdims=True), -2)
    return np.where(largest == 0, 1, np.conj(largest) / np.maximum(np.abs(largest), 1e-30))


def _span(vectors: Any) -> Any:
    """The projection onto the space of some columns, whichever of its bases they are."""
    return vectors @ np.conj(np.swapaxes(vectors, -1, -2))


def _symmetric(values: Sequence[Any]) -> Sequence[Any]:
    """Eigenvalues, eigenvectors where they were asked for."""
    e, v = values
    return [e, v * _phases(v)] if v.ndim > 1 and v.size else [e, v]


def _one_matrix(values: Sequence[Any]) -> Sequence[Any]:
    """(..., M + 1, M): a row of eigenvalues above the eigenvectors."""
    (both,) = values
    v = both[..., 1:, :]
    return [np.concatenate([both[..., :1, :], v * _phases(v)], -2)] if v.size else values


def _singular(values: Sequence[Any]) -> Sequence[Any]:
    """Singular values, left and right vectors, which go together, and the spaces of those without a value."""
    s, u, v = values
    if u.ndim < 2 or not u.size or not v.size:
        return values
    count = s.shape[-1]
    left, right = u[..., :count], v[..., :count]
    phases = _phases(left)
    return [s, left * phases, right * phases, _span(u[..., count:]), _span(v[..., count:])]


def _general(values: Sequence[Any]) -> Sequence[Any]:
    """Eigenvalues in order of their parts, eigenvectors with them."""
    e, v = values
    if not e.size:
        return values
    order = np.lexsort((e.imag.round(_DIGITS), e.real.round(_DIGITS)), -1)
    sorted_e = np.take_along_axis(e, order, -1)
    if v.ndim < 2 or not v.size:
        return [sorted_e, v]
    columns = np.take_along_axis(v, order[..., None, :], -1)
    return [sorted_e, columns * _phases(columns)]


def _pixels(encoded: bytes) -> list[Any]:
    """Return the contents of an encoded image: its shape and its pixels."""
    from PIL import Image

    image = np.asarray(Image.open(io.BytesIO(encoded)))
    return [image.shape, image.tobytes()]


def _images(values: Sequence[Any]) -> Sequence[Any]:
    """Encoded images, and what each shows."""
    encoded = np.asarray(values[0], object).reshape(-1).tolist()
    return [_objects([part for image in encoded for part in _pixels(image)])]


def _pictures(values: Sequence[Any]) -> Sequence[Any]:
    """A Summary of images: of each its tag and sizes, and what it shows."""
    found: list[Any] = []
    for _, _, entry in fields(np.asarray(values[0], object).item()):
        told = {number: value for number, _, value in fields(entry)}
        image = {number: value for number, _, value in fields(told[4])}
        found += [bytes(told[1]), image[1], image[2], image[3], *_pixels(bytes(image[4]))]
    return [_objects(found)]


def _objects(items: Sequence[Any]) -> Any:
    array = np.empty(len(items), object)
    array[:] = items
    return array


_SETTLES: Final[Mapping[str, Settle]] = {
    "SelfAdjointEigV2": _symmetric,
    "BatchSelfAdjointEigV2": _symmetric,
    "SelfAdjointEig": _one_matrix,
    "BatchSelfAdjointEig": _one_matrix,
    "Svd": _singular,
    "BatchSvd": _singular,
    "Eig": _general,
    "EncodeJpegVariableQuality": _images,
    "ImageSummary": _pictures,
}


def settled(op: str, values: Sequence[Any]) -> Sequence[Any]:
    """The outputs of an op without what its definition leaves open; those of most ops as they are."""
    settle = _SETTLES.get(op)
    return values if settle is None else settle(values)


__all__ = ["settled"]
