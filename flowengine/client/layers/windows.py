"""Layers with a window: its numbers, checked, and ops over two or three axes that serve one axis too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

from flowengine.client.layers.base import Activation, LayerOptions, known_size, need_rank
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.tensor import Tensor

#: One number for all axes of a window, or one each.
Window: TypeAlias = int | Sequence[int]


class ChannelOrder(TypedDict, total=False):
    """data_format   "channels_last" unless it is given, or "channels_first": where the channels stand."""

    data_format: str


class WindowOptions(LayerOptions, ChannelOrder, total=False):
    """Options of a layer with a window, a kernel and a bias: `LayerOptions`, `ChannelOrder`, and

    activation   a function of a tensor, or its name, applied at the end; None for no activation
    """

    activation: Activation


class ConvolutionOptions(WindowOptions, total=False):
    """Options of a convolution: `WindowOptions`, and

    dilation_rate   how far apart the elements of a window are, 1 unless it is given
    """

    dilation_rate: Window


@dataclass(frozen=True, slots=True)
class WindowForm:
    """A window over the axes of space, one number for each of them.

    what      the name of the layer in errors
    sizes     of the window; strides, from one to the next; rates, from one element of a window to the next
    first     whether channels stand before the axes of space
    padding   SAME or VALID
    """

    what: str
    sizes: list[int]
    strides: list[int]
    rates: list[int]
    first: bool
    padding: str

    @classmethod
    def of(
        cls,
        what: str,
        x: Tensor,
        rank: int,
        size: Window,
        strides: Window,
        padding: str,
        options: Mapping[str, Any],
        size_name: str = "kernel_size",
    ) -> WindowForm:
        """That of a layer over `rank` axes of x; InvalidArgumentError for what does not fit."""
        need_rank(what, x, rank + 2)
        order = options.get("data_format", "channels_last")
        if order not in ("channels_first", "channels_last"):
            raise InvalidArgumentError(
                f'layers.{what}: data_format is "channels_first" or "channels_last", not {order!r}'
            )
        if padding.upper() not in ("SAME", "VALID"):
            raise InvalidArgumentError(f'layers.{what}: padding is "same" or "valid", not {padding!r}')
        form = cls(
            what,
            _numbers(what, size_name, size, rank),
            _numbers(what, "strides", strides, rank),
            _numbers(what, "dilation_rate", options.get("dilation_rate", 1), rank),
            order == "channels_first",
            padding.upper(),
        )
        if max(form.strides) > 1 and max(form.rates) > 1:
            raise InvalidArgumentError(
                f"layers.{what}: either strides {form.strides} or dilation_rate {form.rates} is all 1"
            )
        return form

    @property
    def axis(self) -> int:
        """The axis of the channels."""
        return 1 if self.first else -1

    def channels(self, x: Tensor) -> int:
        """How many channels x has."""
        return known_size(self.what, x, self.axis)

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of an op over two axes or three."""
        space = "DHW"[-max(len(self.sizes), 2) :]
        return {
            "strides": self.spread(self.strides),
            "padding": self.padding,
            "data_format": f"NC{space}" if self.first else f"N{space}C",
        }

    def spread(self, numbers: Sequence[int]) -> list[int]:
        """Numbers of the axes of space among those of batch and channels, which are 1; of one axis two."""
        wide = [1, *numbers] if len(numbers) == 1 else numbers
        return [1, 1, *wide] if self.first else [1, *wide, 1]

    def over_image(self, x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function of images to x; a sequence is treated as an image of height 1."""
        if len(self.sizes) > 1:
            return compute(x)
        ops, height = x.graph.ops, 2 if self.first else 1
        result: Tensor = ops.Squeeze(compute(ops.ExpandDims(x, height)), squeeze_dims=[height])
        return result

    def kernel_of_image(self, kernel: Tensor) -> Tensor:
        """The kernel, for an image; that of a sequence has height 1."""
        result: Tensor = kernel if len(self.sizes) > 1 else kernel.graph.ops.ExpandDims(kernel, 0)
        return result


def _numbers(what: str, name: str, value: Window, rank: int) -> list[int]:
    """One number for each axis of a window; InvalidArgumentError for another count or none positive."""
    sizes = [value] * rank if isinstance(value, int) else list(value)
    if len(sizes) != rank or any(size < 1 for size in sizes):
        raise InvalidArgumentError(
            f"layers.{what}: {name} is {value}; it is {rank} positive integers, or one"
        )
    return sizes


__all__ = ["ChannelOrder", "ConvolutionOptions", "Window", "WindowForm", "WindowOptions"]
