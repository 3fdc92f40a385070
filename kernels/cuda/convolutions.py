"""Convolutions and their gradients by cuDNN, over arrays of one device.

    products = CardConvolutions(plans, launcher, Products(xp))
    y = products.forward(x, filters, geometry)

Arrays are as `kernels/nn/convolution.py` gives them: (N, *sizes, C), which may be a view of (N, C, *sizes),
and filters (*window, C_in, C_out). cuDNN is told how they lie, so neither is copied. Plans are kept by shape
with the device, and on disk beside the compiled modules. What cuDNN has no engine for is the array module's.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError, UnimplementedError
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.cuda import compiling, convolution_tuning
from flowengine.kernels.cuda.convolution_plans import (
    ALIGNMENT,
    BIAS,
    TYPES,
    ConvolutionCall,
    ConvolutionPlan,
    EngineRules,
    LaidTensor,
    W,
    X,
    Y,
    call_of,
    channels_first,
    channels_last,
    make_plan,
    read_plan,
)
from flowengine.kernels.cuda.cudnn import Attribute, Cudnn, CudnnHandle, CudnnPart, Descriptor


class ArrayMemory(Protocol):
    """An allocator of memory: a `launching.Launcher`."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of the device that holds anything."""

    def address(self, array: Array) -> int:
        """Return the address of an array in the device's memory."""


class Convolver(Protocol):
    """An object that computes convolutions: those of `kernels/nn/conv_products.py`, and these."""

    def forward(self, x: Array, filters: Array, geometry: Windows) -> Any:
        """(N, *sizes, C_in), (*window, C_in, C_out) -> (N, *out, C_out)."""

    def filter_gradient(self, x: Array, gradient: Array, geometry: Windows) -> Any:
        """(N, *sizes, C_in), (N, *out, C_out) -> (*window, C_in, C_out)."""

    def input_gradient(self, filters: Array, gradient: Array, geometry: Windows) -> Any:
        """(*window, C_in, C_out), (N, *out, C_out) -> (N, *sizes, C_in)."""


class PlanStore:
    """The plans for one card under one set of rules, by call. For any thread.

    left_out   {call: why} of those that cuDNN does not compute
    """

    def __init__(self, library: Cudnn, card: Descriptor, rules: EngineRules) -> None:
        self.rules: Final = rules
        self.left_out: dict[ConvolutionCall, str] = {}
        self._library = library
        self._card = card
        self._plans: dict[ConvolutionCall, ConvolutionPlan | None] = {}
        self._lock = threading.Lock()
        #: What a file's name is made of beside the call.
        self._where = repr((library.version, card.text(Attribute.CARD_JSON), rules))

    def plan(self, call: ConvolutionCall) -> ConvolutionPlan | None:
        """A call's plan, found, read or made; None where cuDNN has none. Raises what `make_plan` does."""
        found = self._plans.get(call)
        if found is None and call not in self._plans:
            with self._lock:
                if call not in self._plans:
                    self._plans[call] = self._read(call) or self._made(call)
            found = self._plans[call]
        return found

    def _path(self, call: ConvolutionCall) -> Any:
        key = sha256(f"{self._where}\0{call!r}".encode()).hexdigest()
        return compiling.cache_folder() / f"{key}.plan"

    def _read(self, call: ConvolutionCall) -> ConvolutionPlan | None:
        try:
            return read_plan(self._library, self._card, self._path(call).read_bytes())
        except (OSError, OpError):
            return None  # there is none, or what is there is damaged: it is made anew

    def _made(self, call: ConvolutionCall) -> ConvolutionPlan | None:
        try:
            plan = make_plan(self._library, self._card, call, self.rules)
        except UnimplementedError as error:
            self.left_out[call] = error.message
            return None
        with contextlib.suppress(OSError):
            compiling.keep(self._path(call), plan.text)
        return plan


class _Way(NamedTuple):
    """How calls of one kind are computed.

    plan               None where cuDNN does not compute them
    is_padded_before   whether by another call, over a tensor with its padding around it
    is_turned          whether images are copied to channels first before
    """

    plan: ConvolutionPlan | None
    is_padded_before: bool
    is_turned: bool


#: Kinds of calls that are kept; one more, and all are looked up anew.
_WAYS_MAX: Final = 4096


class CardConvolutions:
    """Keeps `Convolver`, over arrays of one device and on one stream."""

    def __init__(
        self,
        store: PlanStore,
        handle: CudnnHandle,
        memory: ArrayMemory,
        xp: Any,
        otherwise: Convolver,
    ) -> None:
        """`otherwise` computes what cuDNN does not."""
        self._store = store
        self._handle = handle
        self._memory = memory
        self._xp = xp
        self._otherwise = otherwise
        #: {all that a plan is chosen by: the way}
        self._ways: dict[Any, _Way] = {}

    def forward(self, x: Array, filters: Array, geometry: Windows) -> Any:
        """See `Convolver`."""
        shape = (x.shape[0], *geometry.out, filters.shape[-1])
        found = self._computed(CudnnPart.FORWARD, (x, filters, None), shape, geometry)
        return self._otherwise.forward(x, filters, geometry) if found is None else found

    def filter_gradient(self, x: Array, gradient: Array, geometry: Windows) -> Any:
        """See `Convolver`."""
        shape = (*geometry.window, x.shape[-1], gradient.shape[-1])
        found = self._computed(CudnnPart.FILTER_GRADIENT, (x, None, gradient), shape, geometry)
        return self._otherwise.filter_gradient(x, gradient, geometry) if found is None else found

    def input_gradient(self, filters: Array, gradient: Array, geometry: Windows) -> Any:
        """See `Convolver`."""
        shape = (gradient.shape[0], *geometry.sizes, filters.shape[-2])
        found = self._computed(CudnnPart.INPUT_GRADIENT, (None, filters, gradient), shape, geometry)
        return self._otherwise.input_gradient(filters, gradient, geometry) if found is None else found

    def with_epilogue(
        self, x: Array, filters: Array, bias: Array, geometry: Windows, *, has_relu: bool
    ) -> Any:
        """`forward` with a bias (C_out,) and maybe a Relu behind it; None where cuDNN has no plan."""
        shape = (x.shape[0], *geometry.out, filters.shape[-1])
        return self._computed(CudnnPart.FORWARD, (x, filters, None), shape, geometry, bias, has_relu)

    def _computed(
        self,
        direction: CudnnPart,
        given: tuple[Array | None, Array | None, Array | None],
        shape: tuple[int, ...],
        geometry: Windows,
        bias: Array | None = None,
        has_relu: bool = False,
    ) -> Any:
        """Compute the missing one of x, filters and y; None if cuDNN does not compute it."""
        arrays = [None if array is None else self._lying(array) for array in given]
        image = next(array for array in (arrays[0], arrays[2]) if array is not None)
        dtype, is_first = image.dtype, not image.flags.c_contiguous
        missing = next(place for place, array in enumerate(arrays) if array is None)
        shapes = tuple(shape if array is None else array.shape for array in arrays)
        key = (direction, dtype, shapes, geometry, is_first, bias is None, has_relu)
        way = self._ways.get(key) or self._new_way(key)
        if way.is_padded_before:
            return self._padded(direction, given, shape, geometry, bias, has_relu)
        if way.plan is None:
            return None
        is_first = is_first or way.is_turned
        # Images that lie in two ways are told as the first of them does; the other one is copied.
        for place, array in enumerate(arrays):
            if array is not None:
                arrays[place] = self._as(array, is_first and place != 1)
        made = arrays[missing] = self._result(shape, dtype, is_first and missing != 1)
        beside = None if bias is None else self._as(bias, False)
        self._execute(way.plan, [(X, arrays[0]), (W, arrays[1]), (Y, arrays[2]), (BIAS, beside)])
        return self._xp.ascontiguousarray(made) if way.is_turned else made

    def _new_way(self, key: Any) -> _Way:
        """How a call of this kind is computed, to be kept."""
        direction, dtype, shapes, geometry, is_first, has_no_bias, has_relu = key
        way = _Way(None, False, False)
        if dtype.name in TYPES and all(map(all, shapes)) and all(geometry.out):
            rules = self._store.rules

            def call_in(lies_first: bool) -> ConvolutionCall:
                x, w, y = _image(shapes[0], lies_first), _filters(shapes[1]), _image(shapes[2], lies_first)
                made = call_of(direction, dtype.name, x, w, y, geometry)
                return made._replace(has_bias=not has_no_bias, has_relu=has_relu)

            call = call_in(is_first)
            if convolution_tuning.is_padded_before(call, rules):
                # Nothing is padded for a bias that no plan has behind it.
                way = _Way(None, has_no_bias or self._is_planned_padded(key), False)
            else:
                is_turned = not is_first and convolution_tuning.is_turned(call, rules)
                way = _Way(self._store.plan(call_in(True) if is_turned else call), False, is_turned)
        if len(self._ways) >= _WAYS_MAX:
            self._ways.clear()
        self._ways[key] = way
        return way

    def _is_planned_padded(self, key: Any) -> bool:
        """Whether there is a plan for a call forward over an image with its padding around it."""
        direction, dtype, (image, *others), geometry, _, *behind = key
        around = _around(geometry)
        shapes = ((image[0], *around.sizes, image[-1]), *others)
        padded = (direction, dtype, shapes, around, False, *behind)
        return (self._ways.get(padded) or self._new_way(padded)).plan is not None

    def _padded(
        self,
        direction: CudnnPart,
        given: tuple[Array | None, Array | None, Array | None],
        shape: tuple[int, ...],
        geometry: Windows,
        bias: Array | None,
        has_relu: bool,
    ) -> Any:
        """`_computed` over a tensor that has its padding around it."""
        around = _around(geometry)
        x, filters, gradient = given
        if direction is CudnnPart.FORWARD:
            assert x is not None
            images = (geometry.pad(self._xp, x), filters, gradient)
            return self._computed(direction, images, shape, around, bias, has_relu)
        whole = (shape[0], *around.sizes, shape[-1])
        made = self._computed(direction, given, whole, around)
        return None if made is None else self._xp.ascontiguousarray(geometry.crop(made))

    def _execute(self, plan: ConvolutionPlan, tensors: list[tuple[int, Any]]) -> None:
        address = self._memory.address
        there = [(name, array) for name, array in tensors if array is not None]
        workspace = self._memory.empty((plan.workspace,), np.uint8) if plan.workspace else None
        self._handle.execute(
            plan.descriptor,
            [name for name, _ in there],
            [address(array) for _, array in there],
            0 if workspace is None else address(workspace),
        )

    def _lying(self, array: Array) -> Array:
        """An array without gaps: itself, also where it is a view with the channels moved last, or a copy."""
        if array.flags.c_contiguous or _moved_first(array).flags.c_contiguous:
            return array
        copied: Array = self._xp.ascontiguousarray(array)
        return copied

    def _as(self, array: Any, is_first: bool) -> Array:
        """The same with the channels first or last in memory, where plans want it to begin."""
        whole = self._xp.ascontiguousarray(_moved_first(array) if is_first else array)
        if self._memory.address(whole) % ALIGNMENT:
            whole = whole.copy()  # a part of something: new memory begins at such a place
        return _moved_last(whole) if is_first else whole

    def _result(self, shape: tuple[int, ...], dtype: Any, is_first: bool) -> Array:
        if not is_first:
            return self._memory.empty(shape, dtype)
        return _moved_last(self._memory.empty((shape[0], shape[-1], *shape[1:-1]), dtype))


def _around(geometry: Windows) -> Windows:
    """The geometry of an image that has its padding around it."""
    none = (0,) * len(geometry.out)
    return replace(geometry, sizes=geometry.padded, before=none, after=none)


def _moved_first(array: Array) -> Array:
    """(N, *sizes, C) as (N, C, *sizes): a view."""
    return array.transpose(0, -1, *range(1, array.ndim - 1))


def _moved_last(array: Array) -> Array:
    """(N, C, *sizes) as (N, *sizes, C): a view."""
    return array.transpose(0, *range(2, array.ndim), 1)


def _image(shape: tuple[int, ...], is_first: bool) -> LaidTensor:
    dims = (shape[0], shape[-1], *shape[1:-1])
    return channels_first(dims) if is_first else channels_last(dims)


def _filters(shape: tuple[int, ...]) -> LaidTensor:
    """Filters (*window, C_in, C_out) as (C_out, C_in, *window)."""
    *window, channels, width = shape
    strides = [channels * width]
    for size in reversed(window[1:]):
        strides.insert(0, strides[0] * size)
    return LaidTensor((width, channels, *window), (1, width, *strides))


__all__ = ["ArrayMemory", "CardConvolutions", "Convolver", "PlanStore"]
