"""oneDNN's descriptors and memories as Python objects that are freed with their last reference."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Final

from flowengine.kernels.onednn.library import Library, LibraryError

FLOAT32: Final = 3
UINT8: Final = 6
#: The format by which a primitive chooses its own.
_ANY: Final = 1
_SCRATCHPAD_USER: Final = 1
#: The slow reference, and what calls the routine behind `dnnl_sgemm`, which writes beyond its work space.
_UNWANTED: Final = ("ref", "gemm")
_IMPLEMENTATION: Final = 8
#: The library counts in 32 bits within, in vectors of sixteen at most, and divides by what comes out: a size
#: that overflows ends the process.
_SIZE_MAX: Final = 2**31 - 1024
_ELEMENTS_MAX: Final = 2**40


class Handle:
    """An object of the library's and the function that frees it."""

    __slots__ = ("_free", "value")

    def __init__(self, value: int, free: Any) -> None:
        self._free = free
        self.value = value

    def __del__(self) -> None:
        # Ctrl-C may have come before there was anything to free.
        value = getattr(self, "value", None)
        if value is not None:
            self._free(value)


def dims(values: Sequence[int]) -> Any:
    """Sizes, steps and paddings as the library takes them; LibraryError for what it would not survive."""
    if max(values, default=0) > _SIZE_MAX:
        raise LibraryError("sizes beyond 31 bits")
    return _numbers(values)


def _numbers(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def _shape(sizes: Sequence[int]) -> Any:
    if math.prod(sizes) > _ELEMENTS_MAX:
        raise LibraryError("more elements than any memory holds")
    return dims(sizes)


def _descriptor(library: Library, value: int) -> Handle:
    return Handle(value, library._functions.dnnl_memory_desc_destroy)


def strided(library: Library, shape: Sequence[int], strides: Sequence[int], element: int = FLOAT32) -> Handle:
    """Elements of this shape with these strides, counted in elements; float32 unless another type is said."""
    made = library.new(
        "memory_desc_create_with_strides", len(shape), _shape(shape), element, _numbers(strides)
    )
    return _descriptor(library, made)


def anyhow(library: Library, shape: Sequence[int]) -> Handle:
    """float32 elements of this shape in the order that suits the primitive."""
    return _descriptor(
        library, library.new("memory_desc_create_with_tag", len(shape), _shape(shape), FLOAT32, _ANY)
    )


def dense(library: Library, shape: Sequence[int]) -> Handle:
    """float32 elements of this shape, C-contiguous."""
    return strided(library, shape, dense_strides(shape))


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def image(
    library: Library,
    count: int,
    sizes: Sequence[int],
    channels: int,
    first: bool,
    element: int = FLOAT32,
) -> Handle:
    """Images: (N, C, *sizes) to the library, in memory channels last, or `first`."""
    shape = (count, channels, *sizes)
    if first:
        return strided(library, shape, dense_strides(shape), element)
    last = dense_strides((count, *sizes, channels))
    return strided(library, shape, (last[0], last[-1], *last[1:-1]), element)


class Description:
    """A primitive descriptor: an operation on descriptors, with the implementation chosen."""

    __slots__ = ("_handle", "library")

    def __init__(self, library: Library, kind: str, *arguments: Any) -> None:
        """LibraryError where the library has no implementation of it, or only an unwanted one."""
        self.library = library
        made = library.new(f"{kind}_primitive_desc_create", *arguments)
        self._handle = Handle(made, library._functions.dnnl_primitive_desc_destroy)
        if kind != "reorder" and self.implementation().startswith(_UNWANTED):
            raise LibraryError("only the reference implementation, or the one by products, fits")

    @property
    def value(self) -> int:
        return self._handle.value

    def implementation(self) -> str:
        """The name of the implementation that was chosen."""
        name = ctypes.c_char_p()
        self.library.call("primitive_desc_query", self.value, _IMPLEMENTATION, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def memory(self, what: int, index: int = 0) -> Handle:
        """The descriptor of an argument: `what` is one of the QUERY numbers."""
        found = self.library.query(self.value, what, index)
        if not found:
            raise LibraryError("the primitive has no such argument")
        return _descriptor(self.library, self.library.new("memory_desc_clone", found))

    def primitive(self) -> Handle:
        made = self.library.new("primitive_create", self.value)
        return Handle(made, self.library._functions.dnnl_primitive_destroy)


QUERY_SRC: Final = 129
QUERY_WEIGHTS: Final = 131
QUERY_DIFF_WEIGHTS: Final = 132
QUERY_DST: Final = 133
QUERY_DIFF_SRC: Final = 130
QUERY_DIFF_DST: Final = 134
QUERY_WORKSPACE: Final = 135
QUERY_SCRATCHPAD: Final = 136


#: What a primitive does with its result last: ("eltwise", function, alpha, beta), or ("binary", function,
#: descriptor of the other operand).
After = tuple[Any, ...]


def attributes(library: Library, after: Sequence[After] = (), scaled: Sequence[int] = ()) -> Handle:
    """Attributes of a primitive: scratch memory is the caller's.

    after    elementwise functions that are applied to the result, in order
    scaled   numbers of the arguments that are multiplied by a number given at each call
    """
    attrs = Handle(library.new("primitive_attr_create"), library._functions.dnnl_primitive_attr_destroy)
    library.call("primitive_attr_set_scratchpad_mode", attrs.value, _SCRATCHPAD_USER)
    for argument in scaled:
        library.call("primitive_attr_set_scales_mask", attrs.value, argument, 0)
    if after:
        chain = Handle(library.new("post_ops_create"), library._functions.dnnl_post_ops_destroy)
        for kind, *given in after:
            values = (v.value if isinstance(v, Handle) else v for v in given)
            library.call(f"post_ops_append_{kind}", chain.value, *values)
        library.call("primitive_attr_set_post_ops", attrs.value, chain.value)
    return attrs


def four_axes(x: tuple[int, ...], data_format: bytes) -> tuple[int, tuple[int, ...], int, bool]:
    """(count, sizes, channels, channels first) of a batch of images."""
    if len(x) != 4 or 0 in x or data_format not in (b"NHWC", b"NCHW"):
        raise LibraryError("no images")
    first = data_format == b"NCHW"
    return (x[0], x[2:], x[1], True) if first else (x[0], x[1:3], x[3], False)
