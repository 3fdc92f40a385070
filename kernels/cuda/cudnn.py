"""cuDNN's graph interface through ctypes: the library, its descriptors, and what a card is to it.

    library = cudnn()
    tensor = Descriptor(library, TENSOR)
    tensor.set_enum(TENSOR_DATA_TYPE, CudnnType.DATA_TYPE, 0)
    tensor.finalize()

A descriptor is made, given attributes, and finalised; from then on it is only read. Plans are made for a card
that is described by its properties, so none needs a handle: only what computes does. That is why plans can be
made, kept and tried on a machine without a card. `convolution_plans.py` makes those of convolutions.

Numbers are those of cuDNN 9's `cudnn_graph.h`.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.devices import cuda

#: cuDNN's first version that makes plans for a card by its properties.
VERSION_MIN: Final = 90800


class CudnnType(IntEnum):
    """cudnnBackendAttributeType_t: what an attribute's elements are."""

    HANDLE = 0
    DATA_TYPE = 1
    BOOLEAN = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    VOID_PTR = 6
    CONVOLUTION_MODE = 7
    HEUR_MODE = 8
    NAN_PROPAGATION = 10
    NUMERICAL_NOTE = 11
    POINTWISE_MODE = 14
    BACKEND_DESCRIPTOR = 15
    INT32 = 23
    CHAR = 24


class CudnnPart(IntEnum):
    """cudnnBackendDescriptorType_t: what a descriptor describes."""

    POINTWISE = 0
    CONVOLUTION = 1
    ENGINE = 2
    ENGINE_CONFIG = 3
    HEURISTICS = 4
    PLAN = 5
    FORWARD = 10
    FILTER_GRADIENT = 11
    INPUT_GRADIENT = 12
    POINTWISE_STEP = 13
    GRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17
    CARD = 38


class Attribute(IntEnum):
    """cudnnBackendAttributeName_t, of what is used here."""

    POINTWISE_MODE = 0
    POINTWISE_MATH_PREC = 1
    POINTWISE_NAN_PROPAGATION = 2
    CONVOLUTION_COMP_TYPE = 100
    CONVOLUTION_CONV_MODE = 101
    CONVOLUTION_DILATIONS = 102
    CONVOLUTION_FILTER_STRIDES = 103
    CONVOLUTION_POST_PADDINGS = 104
    CONVOLUTION_PRE_PADDINGS = 105
    CONVOLUTION_SPATIAL_DIMS = 106
    ENGINEHEUR_MODE = 200
    ENGINEHEUR_OPERATION_GRAPH = 201
    ENGINEHEUR_RESULTS = 202
    ENGINEHEUR_DEVICEPROP = 204
    ENGINECFG_ENGINE = 300
    PLAN_ENGINE_CONFIG = 401
    PLAN_WORKSPACE_SIZE = 402
    PLAN_JSON = 405
    PLAN_DEVICEPROP = 407
    FORWARD_ALPHA = 700
    FORWARD_BETA = 701
    FORWARD_CONV_DESC = 702
    FORWARD_W = 703
    FORWARD_X = 704
    FORWARD_Y = 705
    INPUT_GRADIENT_ALPHA = 706
    INPUT_GRADIENT_BETA = 707
    INPUT_GRADIENT_CONV_DESC = 708
    INPUT_GRADIENT_W = 709
    INPUT_GRADIENT_DX = 710
    INPUT_GRADIENT_DY = 711
    FILTER_GRADIENT_ALPHA = 712
    FILTER_GRADIENT_BETA = 713
    FILTER_GRADIENT_CONV_DESC = 714
    FILTER_GRADIENT_DW = 715
    FILTER_GRADIENT_X = 716
    FILTER_GRADIENT_DY = 717
    POINTWISE_STEP_DESCRIPTOR = 750
    POINTWISE_STEP_X = 751
    POINTWISE_STEP_B = 752
    POINTWISE_STEP_Y = 753
    GRAPH_OPS = 801
    TENSOR_BYTE_ALIGNMENT = 900
    TENSOR_DATA_TYPE = 901
    TENSOR_DIMENSIONS = 902
    TENSOR_STRIDES = 903
    TENSOR_UNIQUE_ID = 906
    TENSOR_IS_VIRTUAL = 907
    VARIANT_PACK_UNIQUE_IDS = 1000
    VARIANT_PACK_DATA_POINTERS = 1001
    VARIANT_PACK_WORKSPACE = 1003
    ENGINE_GLOBAL_INDEX = 1301
    ENGINE_NUMERICAL_NOTE = 1303
    CARD_HANDLE = 2701
    CARD_JSON = 2702


class NumericalNote(IntEnum):
    """cudnnBackendNumericalNote_t: what an engine does with numbers."""

    TENSOR_CORE = 0
    DOWN_CONVERT_INPUTS = 1
    REDUCED_PRECISION_REDUCTION = 2
    FFT = 3
    NONDETERMINISTIC = 4
    WINOGRAD = 5
    WINOGRAD_TILE_4x4 = 6
    WINOGRAD_TILE_6x6 = 7
    WINOGRAD_TILE_13x13 = 8
    STRICT_NAN_PROP = 9


#: An engine has no more notes than there are.
_NOTES_MAX: Final = 16

_HANDLE: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int
_COUNT: Final = ctypes.c_int64
#: {function: (the type of its result, those of its arguments)}.
SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "cudnnGetVersion": (ctypes.c_size_t, ()),
    "cudnnGetErrorString": (ctypes.c_char_p, (_INT,)),
    "cudnnGetLastErrorString": (None, (ctypes.c_char_p, ctypes.c_size_t)),
    "cudnnCreate": (_INT, (ctypes.POINTER(_HANDLE),)),
    "cudnnDestroy": (_INT, (_HANDLE,)),
    "cudnnSetStream": (_INT, (_HANDLE, ctypes.c_void_p)),
    "cudnnBackendCreateDescriptor": (_INT, (_INT, ctypes.POINTER(_HANDLE))),
    "cudnnBackendDestroyDescriptor": (_INT, (_HANDLE,)),
    "cudnnBackendFinalize": (_INT, (_HANDLE,)),
    "cudnnBackendSetAttribute": (_INT, (_HANDLE, _INT, _INT, _COUNT, ctypes.c_void_p)),
    "cudnnBackendGetAttribute": (
        _INT,
        (_HANDLE, _INT, _INT, _COUNT, ctypes.POINTER(_COUNT), ctypes.c_void_p),
    ),
    "cudnnBackendExecute": (_INT, (_HANDLE, _HANDLE, _HANDLE)),
}
_TEXT_BYTES: Final = 4096
#: cudnnStatus_t: the thousands say of what kind; memory of the host, and of the card.
_NOT_SUPPORTED: Final = 3
_SHORT_MEMORY: Final = (4003, 4004)


class Cudnn:
    """The library, loaded, with its functions' signatures. For any thread."""

    def __init__(self, path: str) -> None:
        """Raises FailedPreconditionError for a file that is no cuDNN, or one that is too old."""
        try:
            self._library: Any = ctypes.CDLL(path)
            for name, (result, arguments) in SIGNATURES.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, result
        except (OSError, AttributeError) as error:
            raise FailedPreconditionError(f"{path} cannot be used as cuDNN: {error}") from None
        self.version: Final[int] = self._library.cudnnGetVersion()
        if self.version < VERSION_MIN:
            raise FailedPreconditionError(
                f"{path} is cuDNN {_dotted(self.version)}: convolutions need {_dotted(VERSION_MIN)} or newer"
            )

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `SIGNATURES` that returns a status; what is not success becomes an error.

        Raises UnimplementedError for what cuDNN does not do, ResourceExhaustedError where memory was short,
        InternalError for all else.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            raise self._error(name, status)

    def _error(self, name: str, status: int) -> OpError:
        kind: type[OpError] = InternalError
        if status // 1000 == _NOT_SUPPORTED:
            kind = UnimplementedError
        elif status in _SHORT_MEMORY:
            kind = ResourceExhaustedError
        word = (self._library.cudnnGetErrorString(status) or b"").decode(errors="replace")
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._library.cudnnGetLastErrorString(text, _TEXT_BYTES)
        why = text.value.decode(errors="replace").strip()
        return kind(f"cuDNN: {name} gave {status}, {word or 'a status that is not known'}: {why}")


def _dotted(version: int) -> str:
    return f"{version // 10000}.{version % 10000 // 100}.{version % 100}"


@functools.lru_cache(maxsize=1)
def cudnn() -> Cudnn:
    """The cuDNN of the Python environment; FailedPreconditionError, which says what to install, without."""
    return Cudnn(cuda.library_path("cudnn", "cuDNN"))


class Descriptor:
    """One of cuDNN's descriptors; it goes with its last reference. What it was given must outlive it."""

    __slots__ = ("__weakref__", "_given", "_library", "handle", "part")

    def __init__(self, library: Cudnn, part: CudnnPart) -> None:
        """Raises what `Cudnn.call` does."""
        self._library = library
        self.part: Final = part
        handle = _HANDLE()
        library.call("cudnnBackendCreateDescriptor", part, ctypes.byref(handle))
        self.handle: Final = handle
        #: Descriptors that this one was given.
        self._given: list[Descriptor] = []
        weakref.finalize(self, library._library.cudnnBackendDestroyDescriptor, handle).atexit = False

    def _set(self, name: Attribute, kind: CudnnType, count: int, values: Any) -> None:
        library = self._library
        status = library._library.cudnnBackendSetAttribute(self.handle, name, kind, count, values)
        if status:
            raise library._error(f"{self.part.name} {name.name}", status)

    def set_enum(self, name: Attribute, kind: CudnnType, value: int) -> None:
        """Set one number of 32 bits: a type, a mode."""
        self._set(name, kind, 1, ctypes.byref(ctypes.c_int32(value)))

    def set_integers(self, name: Attribute, *values: int) -> None:
        """Set numbers of 64 bits."""
        self._set(name, CudnnType.INT64, len(values), (ctypes.c_int64 * len(values))(*values))

    def set_flag(self, name: Attribute, value: bool) -> None:
        """Set a truth value."""
        self._set(name, CudnnType.BOOLEAN, 1, ctypes.byref(ctypes.c_bool(value)))

    def set_factor(self, name: Attribute, value: float, *, is_double: bool) -> None:
        """Set a factor, in the type that sums are in."""
        number: Any = ctypes.c_double(value) if is_double else ctypes.c_float(value)
        self._set(name, CudnnType.DOUBLE if is_double else CudnnType.FLOAT, 1, ctypes.byref(number))

    def set_handle(self, name: Attribute, handle: ctypes.c_void_p) -> None:
        """Set a handle of the library."""
        self._set(name, CudnnType.HANDLE, 1, ctypes.byref(handle))

    def set_addresses(self, name: Attribute, *values: int) -> None:
        """Set addresses of the card's memory."""
        self._set(name, CudnnType.VOID_PTR, len(values), (ctypes.c_void_p * len(values))(*values))

    def set_descriptors(self, name: Attribute, *values: Descriptor) -> None:
        """Set other descriptors, which were finalised."""
        handles = (ctypes.c_void_p * len(values))(*(value.handle.value for value in values))
        self._given += values
        self._set(name, CudnnType.BACKEND_DESCRIPTOR, len(values), handles)

    def set_text(self, name: Attribute, text: bytes) -> None:
        """Set a text, which ends with a zero."""
        self._set(name, CudnnType.CHAR, len(text) + 1, ctypes.create_string_buffer(text))

    def finalize(self) -> None:
        """Have the attributes checked; from now on they are only read. Raises what `Cudnn.call` does."""
        library = self._library
        status = library._library.cudnnBackendFinalize(self.handle)
        if status:
            raise library._error(self.part.name, status)

    def _get(self, name: Attribute, kind: CudnnType, room: int, values: Any) -> int:
        count = _COUNT()
        self._library.call(
            "cudnnBackendGetAttribute", self.handle, name, kind, room, ctypes.byref(count), values
        )
        return count.value

    def integer(self, name: Attribute) -> int:
        """A number of 64 bits."""
        value = ctypes.c_int64()
        self._get(name, CudnnType.INT64, 1, ctypes.byref(value))
        return value.value

    def text(self, name: Attribute) -> bytes:
        """A text, without the zero at its end."""
        size = self._get(name, CudnnType.CHAR, 0, None)
        buffer = ctypes.create_string_buffer(size)
        self._get(name, CudnnType.CHAR, size, buffer)
        return buffer.value

    def notes(self, name: Attribute) -> frozenset[int]:
        """Numerical notes; those that are not known here, too."""
        values = (ctypes.c_int32 * _NOTES_MAX)()
        count = self._get(name, CudnnType.NUMERICAL_NOTE, _NOTES_MAX, values)
        return frozenset(values[:count])

    def descriptors(self, name: Attribute, part: CudnnPart, room: int) -> list[Descriptor]:
        """As many descriptors as there are, `room` at most: new ones, into which cuDNN writes."""
        made = [Descriptor(self._library, part) for _ in range(room)]
        handles = (ctypes.c_void_p * room)(*(each.handle.value for each in made))
        count = self._get(name, CudnnType.BACKEND_DESCRIPTOR, room, handles)
        return made[: min(count, room)]


def card_like(library: Cudnn, properties: bytes) -> Descriptor:
    """The properties of a card as they were written down, `CARD_JSON` of another descriptor."""
    card = Descriptor(library, CudnnPart.CARD)
    card.set_text(Attribute.CARD_JSON, properties)
    card.finalize()
    return card


class CudnnHandle:
    """A handle for one stream: what computes by plans. Close it before the stream goes."""

    def __init__(self, library: Cudnn, stream: int) -> None:
        """Raises what `Cudnn.call` does; nothing is left behind then."""
        self._library = library
        handle = _HANDLE()
        library.call("cudnnCreate", ctypes.byref(handle))
        self._handle: ctypes.c_void_p | None = handle
        try:
            library.call("cudnnSetStream", handle, stream)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Destroy the handle, which waits for what it has enqueued. Again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.call("cudnnDestroy", handle)

    def card(self) -> Descriptor:
        """The properties of the handle's card."""
        card = Descriptor(self._library, CudnnPart.CARD)
        card.set_handle(Attribute.CARD_HANDLE, self._open())
        card.finalize()
        return card

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise FailedPreconditionError("this cuDNN handle has been closed")
        return self._handle

    def execute(
        self, plan: Descriptor, names: Sequence[int], addresses: Sequence[int], workspace: int
    ) -> None:
        """Enqueue what a plan computes.

        names       the tensors' unique numbers
        addresses   where each begins in the card's memory
        workspace   where as many bytes begin as the plan asks for; 0 if it asks for none

        Raises FailedPreconditionError once it was closed, else what `Cudnn.call` does.
        """
        handle = self._open()
        pack = Descriptor(self._library, CudnnPart.VARIANT_PACK)
        pack.set_integers(Attribute.VARIANT_PACK_UNIQUE_IDS, *names)
        pack.set_addresses(Attribute.VARIANT_PACK_DATA_POINTERS, *addresses)
        pack.set_addresses(Attribute.VARIANT_PACK_WORKSPACE, workspace)
        pack.finalize()
        self._library.call("cudnnBackendExecute", handle, plan.handle, pack.handle)


__all__ = [
    "SIGNATURES",
    "VERSION_MIN",
    "Attribute",
    "Cudnn",
    "CudnnHandle",
    "CudnnPart",
    "CudnnType",
    "Descriptor",
    "NumericalNote",
    "card_like",
    "cudnn",
]
