"""Convolutions by cuDNN by layer: both layouts, all three directions, whole float32 and TensorFloat-32.

What is printed of a layer that is faster with the channels first goes into
`flowengine/kernels/cuda/convolution_tuning.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, Final

import numpy as np

from flowengine.core.errors import FailedPreconditionError, OpError
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.cuda import cudnn
from flowengine.kernels.cuda.convolution_plans import (
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
    plans,
    read_plan,
)
from flowengine.kernels.cuda.convolution_tuning import kind_of
from flowengine.kernels.cuda.cudnn import Cudnn, CudnnHandle, CudnnPart, Descriptor
from flowengine.kernels.nn.conv_products import Products
from tests.gpu.tables import ResultTable, seconds

_DIRECTIONS: Final = (CudnnPart.FORWARD, CudnnPart.INPUT_GRADIENT, CudnnPart.FILTER_GRADIENT)
#: Plans of a layer that are timed beside the one that the heuristics put first.
_OTHERS: Final = 4
#: What copies between layouts are taken to move in a second.
_COPIED_BYTES_A_SECOND: Final = 2e12


@dataclass(frozen=True)
class ConvolvedLayer:
    """(batch, size, size, channels) by (window, window, channels, width)."""

    name: str
    batch: int
    size: int
    channels: int
    window: int
    width: int
    stride: int = 1
    padding: bytes = b"SAME"

    @property
    def geometry(self) -> Windows:
        """Its windows."""
        sizes = (self.size, self.size), (self.window, self.window), (self.stride, self.stride), (1, 1)
        return windows(*sizes, self.padding)

    @property
    def operations(self) -> float:
        """Multiplications and additions of one direction."""
        return 2.0 * self.batch * math.prod(self.geometry.out) * self.width * self.channels * self.window**2

    def call(self, direction: CudnnPart, *, first: bool, dtype: str = "float32") -> ConvolutionCall:
        """As cuDNN sees it, with the channels first or last; filters lie as the graph has them."""
        laid, out = channels_first if first else channels_last, self.geometry.out
        x = laid((self.batch, self.channels, self.size, self.size))
        y = laid((self.batch, self.width, *out))
        window, width = self.window, self.width
        strides = (1, width, window * self.channels * width, self.channels * width)
        filters = LaidTensor((width, self.channels, window, window), strides)
        return call_of(direction, dtype, x, filters, y, self.geometry)


LAYERS: Final = (
    ConvolvedLayer("AlexNet 1", 128, 224, 3, 11, 64, 4, b"VALID"),
    ConvolvedLayer("AlexNet 2", 128, 27, 64, 5, 192),
    ConvolvedLayer("AlexNet 3", 128, 13, 192, 3, 384),
    ConvolvedLayer("Overfeat 2", 128, 24, 96, 5, 256, 1, b"VALID"),
    ConvolvedLayer("Overfeat 4", 128, 12, 512, 3, 1024),
    ConvolvedLayer("VGG-A 2", 64, 112, 64, 3, 128),
    ConvolvedLayer("VGG-A 4", 64, 56, 256, 3, 256),
    ConvolvedLayer("VGG-A 6", 64, 28, 512, 3, 512),
    ConvolvedLayer("GoogLeNet 1", 128, 224, 3, 7, 64, 2),
    ConvolvedLayer("GoogLeNet 3a 1x1", 128, 28, 192, 1, 64),
    ConvolvedLayer("GoogLeNet 4e 3x3", 128, 14, 160, 3, 320),
)
SMALL: Final = (ConvolvedLayer("small", 2, 6, 3, 3, 4), ConvolvedLayer("small, strided", 1, 6, 2, 2, 3, 2))


def why_left_out() -> str:
    """Why convolutions cannot be tried; empty if they can."""
    try:
        cudnn.cudnn()
    except FailedPreconditionError as error:
        return error.message
    return ""


class LayerTimes:
    """Runs calls of layers on a launcher's stream."""

    def __init__(self, launcher: Any, library: Cudnn, repeats: int) -> None:
        self._launcher = launcher
        self._library = library
        self._repeats = repeats
        # The launcher has made its context this thread's.
        self.handle = CudnnHandle(library, launcher.stream.handle)
        self.card: Descriptor = self.handle.card()

    def executed(self, call: ConvolutionCall, plan: ConvolutionPlan, arrays: Sequence[Any]) -> None:
        """Enqueue a call over x, filters and y."""
        launcher = self._launcher
        workspace = launcher.empty((max(plan.workspace, 1),), np.uint8)
        addresses = [launcher.address(array) for array in arrays]
        room = launcher.address(workspace) if plan.workspace else 0
        self.handle.execute(plan.descriptor, (X, W, Y), addresses, room)

    def best(self, call: ConvolutionCall, rules: EngineRules) -> tuple[float, float, int, float]:
        """(ms by the first plan, by the fastest one tried, its place, ms that making the first one took)."""
        start = perf_counter()
        found: Iterator[ConvolutionPlan] = plans(self._library, self.card, call, rules)
        tried, making = [], 0.0
        shapes = [call.x.dims, call.w.dims, call.y.dims]
        arrays = [self._launcher.moved_in(np.full(shape, 0.01, np.float32)) for shape in shapes]
        for plan in islice(found, 1 + _OTHERS):
            making = making or (perf_counter() - start) * 1e3

            def work(plan: ConvolutionPlan = plan) -> None:
                self.executed(call, plan, arrays)
                self._launcher.context.synchronize(self._launcher.stream)

            try:
                tried.append(seconds(work, self._repeats) * 1e3)
            except OpError:
                tried.append(math.inf)
        if not tried:
            return math.inf, math.inf, 0, making
        fastest = min(tried)
        return tried[0], fastest, tried.index(fastest), making


def agreement(times: LayerTimes, launcher: Any, table: ResultTable) -> None:
    """Every direction of small layers beside the array module's, and their bits in three runs."""
    source = np.random.default_rng(1)
    for layer in SMALL:
        geometry = layer.geometry
        x = source.normal(size=(layer.batch, layer.size, layer.size, layer.channels)).astype(np.float32)
        y = source.normal(size=(layer.batch, *geometry.out, layer.width)).astype(np.float32)
        shape = (layer.window, layer.window, layer.channels, layer.width)
        filters = source.normal(size=shape).astype(np.float32)
        plain = Products(np)
        wanted = (
            plain.forward(x, filters, geometry),
            plain.input_gradient(filters, y, geometry),
            plain.filter_gradient(x, y, geometry),
        )
        for direction, right in zip(_DIRECTIONS, wanted, strict=True):
            call = layer.call(direction, first=False)
            plan = next(plans(times._library, times.card, call, EngineRules(deterministic=True)))
            again = read_plan(times._library, times.card, plan.text)
            given = [x, filters, y]
            place = {CudnnPart.FORWARD: 2, CudnnPart.INPUT_GRADIENT: 0, CudnnPart.FILTER_GRADIENT: 1}[
                direction
            ]
            bits = []
            for each in (plan, again, plan):
                arrays = [launcher.moved_in(array) for array in given]
                launcher.context.synchronize(launcher.stream)
                times.executed(call, each, arrays)
                bits.append(launcher.moved_out(arrays[place]))
            off = float(np.abs(bits[0] - right).max() / np.abs(right).max())
            name = f"{layer.name}, {direction.name.lower()}"
            if off > 1e-5:
                table.failures.append(f"{name} is off by {off:.2g} of the largest")
            if len({array.tobytes() for array in bits}) > 1:
                table.failures.append(f"{name} has other bits in another run")


def convolutions(launcher: Any, *, simulated: bool = False, library: Cudnn | None = None) -> ResultTable:
    """See the module."""
    table = ResultTable(
        "Convolutions",
        (
            *("layer", "direction", "type", "channels last, ms", "fastest of five (place)", "TFLOP/s"),
            *("channels first, ms", "fastest of five", "with copies", "plan made in, ms"),
        ),
    )
    found = library or cudnn.cudnn()
    times = LayerTimes(launcher, found, 1 if simulated else 5)
    agreement(times, launcher, table)
    faster = []
    for layer in SMALL if simulated else LAYERS:
        for direction in _DIRECTIONS:
            for tensor_float_32 in (False, True):
                rules = EngineRules(tensor_float_32=tensor_float_32)
                call = layer.call(direction, first=False)
                last, last_best, place, making = times.best(call, rules)
                first, first_best, *_ = times.best(layer.call(direction, first=True), rules)
                moved = 8 * (math.prod(call.x.dims) + math.prod(call.y.dims))
                with_copies = first + moved / _COPIED_BYTES_A_SECOND * 1e3
                if with_copies < 0.95 * last:
                    kind = kind_of(call, rules)
                    faster.append(
                        f"LayerKind(CudnnPart.{kind.direction.name}, {', '.join(map(repr, kind[1:]))})"
                    )
                table.rows.append(
                    (
                        layer.name,
                        direction.name.lower(),
                        "TF32" if tensor_float_32 else "float32",
                        f"{last:.3f}",
                        f"{last_best:.3f} ({place})",
                        f"{layer.operations / last / 1e9:.1f}",
                        f"{first:.3f}",
                        f"{first_best:.3f}",
                        f"{with_copies:.3f}",
                        f"{making:.1f}",
                    )
                )
    table.rows.append(("for the table of layouts", " ".join(faster) or "none", *("",) * 8))
    times.handle.close()
    return table


__all__ = ["LAYERS", "ConvolvedLayer", "convolutions", "why_left_out"]
