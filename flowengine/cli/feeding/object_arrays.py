"""Arrays of texts and bytes in `.npy` files: of dtype object, which `np.save` pickles, or of bytes.

An array of bytes keeps no zeros at the end of an element. A serialized tf.Example may end in one, and is no
message without it: so many are added that it is one.

A pickle may call anything that it names. Here the names of NumPy's own pickles stand for functions of this
module and every other name is an error, so that nothing of the file is ever run.
"""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO, Final

import numpy as np

#: The tag that a tf.Example with features begins with.
_EXAMPLE: Final = b"\n"


def read_array(file: BinaryIO) -> Any:
    """Read an `.npy` file; an array of dtype object may hold texts and bytes, and nothing else.

    Raises ValueError for any other object in it, and what NumPy raises over a damaged file.
    """
    start = file.tell()
    version = np.lib.format.read_magic(file)
    header: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else _later_header
    shape, fortran, dtype = header(file)
    if not dtype.hasobject:
        file.seek(start)
        found = np.load(file, allow_pickle=False)
        return found if found.dtype.kind != "S" else _with_whole_examples(found)
    try:
        held = _Texts(file).load()
    except (pickle.UnpicklingError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"its objects cannot be read: {error}") from None
    items = held.items if isinstance(held, _Array) else None
    size = int(np.prod(shape, dtype=np.int64))
    if not isinstance(items, list) or len(items) != size:
        raise ValueError("its objects are not those of one array")
    if not all(isinstance(item, bytes | str) for item in items):
        raise ValueError("it is an array of objects that are neither texts nor bytes")
    array = np.empty(size, dtype=object)
    array[:] = items
    return array.reshape(shape, order="F" if fortran else "C")


def _with_whole_examples(array: Any) -> Any:
    """Return an array of bytes, as objects where zeros are added to the end of some tf.Example."""
    texts = [_whole_example(each, array.dtype.itemsize) for each in array.ravel().tolist()]
    if not any(each.endswith(b"\0") for each in texts):
        return array
    whole = np.empty(len(texts), dtype=object)
    whole[:] = texts
    return whole.reshape(array.shape)


def _whole_example(data: bytes, width: int) -> bytes:
    """Return the shortest tf.Example that an element of so many bytes was; other bytes as they are."""
    if data[:1] != _EXAMPLE or len(data) == width:
        return data
    from flowengine.core.errors import InvalidArgumentError
    from flowengine.ir.proto.example_pb2 import Example
    from flowengine.ir.proto.reading import parsed

    for zeros in range(width - len(data) + 1):
        try:
            found = parsed(data + bytes(zeros), Example())
        except InvalidArgumentError:
            continue
        if found.features.feature:
            return data + bytes(zeros)
    return data


def _later_header(file: BinaryIO) -> Any:
    return np.lib.format.read_array_header_2_0(file)


class _Array:
    """An array of a pickle: only its items are taken."""

    items: Any = None

    def __setstate__(self, state: Any) -> None:
        self.items = state[-1]


class _ElementType:
    """The element type of an array in a pickle: the file's header has it as well."""

    def __setstate__(self, state: Any) -> None:
        """Take nothing."""


def _array(*_: Any) -> _Array:
    return _Array()


def _element_type(*_: Any) -> _ElementType:
    return _ElementType()


def _encode(text: Any, _: Any) -> bytes:
    if not isinstance(text, str):
        raise pickle.UnpicklingError("bytes that are written as no text")
    return text.encode("latin-1")


def _nothing(*_: Any) -> None:
    return None


#: What NumPy's pickles name, and Python's for bytes in old protocols.
_NAMES: Final[dict[tuple[str, str], Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): _nothing,
    ("numpy", "dtype"): _element_type,
    ("_codecs", "encode"): _encode,
}


class _Texts(pickle.Unpickler):
    """Reads a pickle of which nothing is run."""

    def find_class(self, module: str, name: str) -> Any:
        """Look a name up among those that NumPy writes."""
        found = _NAMES.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"it wants {module}.{name}, and only texts are read")
        return found


__all__ = ["read_array"]
