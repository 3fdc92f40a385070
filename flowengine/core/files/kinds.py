"""Kinds of files that hold no graph, recognised by their first bytes, with advice where it helps."""

from __future__ import annotations

from typing import Final

_EXPORT: Final = "in TensorFlow, keras.models.load_model(FILE).export(DIR) writes a directory that runs here"
_PYTORCH: Final = "a PyTorch file: its model has to be rebuilt as a graph of TensorFlow's ops first"
#: What every archive that torch.save writes has in its first kilobyte, and others have not.
_PYTORCH_MEMBER: Final = b"/data.pkl"
#: What the JSON of a converted model says near its beginning, and what wrote it.
_CONVERTED: Final = ((b'"graph-model"', "a graph model"), (b'"layers-model"', "a layers model"))
#: Bytes at the beginning that may tell of a file's kind.
_BEGINNING: Final = 1024
#: (what a file begins with, at which byte, what it is and what helps)
_KINDS: Final = (
    (b"\x89HDF\r\n", 0, f"a HDF5 file, as Keras writes weights and models: {_EXPORT}"),
    (
        b"version https://git-lfs.github.com/spec/",
        0,
        "a Git LFS pointer, which stands for a file that was not downloaded: git lfs pull fetches it",
    ),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", 0, _PYTORCH),
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
    beginning = bytes(data[:_BEGINNING])
    if beginning.startswith(b"PK\x03\x04") and _PYTORCH_MEMBER in beginning:
        return _PYTORCH
    if beginning.lstrip().startswith(b"{"):
        for key, model in _CONVERTED:
            if key in data[: 1 << 20]:
                return f"{model} of TensorFlow.js: what it was converted from runs here"
    return next((kind for magic, at, kind in _KINDS if data[at : at + len(magic)] == magic), None)


__all__ = ["kind_of"]
