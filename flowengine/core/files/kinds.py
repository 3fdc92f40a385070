"""Kinds of files that hold no graph, recognised by their first bytes, with advice where it helps."""

from __future__ import annotations

from typing import Final

_EXPORT: Final = "in TensorFlow, keras.models.load_model(FILE).export(DIR) writes a directory that runs here"
#: (what a file begins with, at which byte, what it is and what helps)
_KINDS: Final = (
    (b"\x89HDF\r\n", 0, f"a HDF5 file, as Keras writes weights and models: {_EXPORT}"),
    (b"PK\x03\x04", 0, f"a zip archive, as Keras' .keras files are: {_EXPORT}"),
    (b"TFL3", 4, "a TensorFlow Lite model: what it was converted from runs here"),
    (b"\x89PNG", 0, "an image"),
    (b"\xff\xd8\xff", 0, "an image"),
    (b"\x93NUMPY", 0, "an array, which --feed NAME=FILE feeds to a graph"),
)


def kind_of(data: bytes) -> str | None:
    """Return the kind of these bytes' content, with an article; None if the kind is unknown.

    >>> kind_of(b"TFL3 is not at the beginning")
    >>> kind_of(bytes([137]) + b"PNG and more")
    'an image'
    """
    return next((kind for magic, at, kind in _KINDS if data[at : at + len(magic)] == magic), None)


__all__ = ["kind_of"]
