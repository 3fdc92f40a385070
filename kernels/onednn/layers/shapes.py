"""The shapes, layouts and primitive descriptors of convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.windows import Windows, explicit_pairs, is_channels_first, spatial, windows
from flowengine.kernels.onednn.library import LibraryError
from flowengine.kernels.onednn.objects import (
    Description,
    Handle,
    anyhow,
    attributes,
    dims,
    image,
    strided,
)
from flowengine.kernels.onednn.programs.preparing import required
from flowengine.kernels.onednn.programs.program import PrimitiveProgram

DIRECT: Final = 1
FORWARD: Final = 96
FORWARD_TRAINING: Final = 64


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """The attributes of a convolution, as far as they do not depend on shapes."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: bytes
    explicit: tuple[int, ...]
    first: bool
    depthwise: bool = False

    @classmethod
    def of(cls, node: Node, depthwise: bool = False) -> WindowAttributes:
        attrs = node.attrs
        return cls(
            attrs["strides"],
            attrs.get("dilations", (1, 1, 1, 1)),
            attrs["padding"],
            attrs.get("explicit_paddings", ()),
            is_channels_first(attrs.get("data_format", b"NHWC")),
            depthwise,
        )


class Layer:
    """The descriptors of a convolution of these shapes; LibraryError where oneDNN should not compute it.

    x, w      shapes of the input, in the layout of the graph, and of the filters (H, W, I, O)
    output    shape of the output in the layout of the graph
    is_grouped   whether the filters see only some of the input's channels each
    """

    def __init__(self, sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...]) -> None:
        self.library = library = required()
        if len(x) != 4 or len(w) != 4 or 0 in x or 0 in w:
            raise LibraryError("not four axes with something in them")
        first = sliding.first
        count, channels = x[0], x[1] if first else x[3]
        sizes = spatial(x, first)
        self.geometry = geometry = _geometry(sliding, sizes, w[:2])
        if 0 in geometry.out:
            raise LibraryError("an empty output")
        high, wide, inward, outward = w
        if sliding.depthwise:
            if channels != inward:
                raise LibraryError("depths that differ")
            groups, outward = channels, inward * outward
            each = outward // groups
            # (group, output, input, H, W); the only input of a group has no stride of its own.
            shape: tuple[int, ...] = (groups, each, 1, high, wide)
            strides: tuple[int, ...] = (each, 1, 1, wide * outward, outward)
        elif channels == inward:
            shape, strides = (
                (outward, inward, high, wide),
                (1, outward, wide * inward * outward, inward * outward),
            )
        else:
            if channels % inward or outward % (channels // inward):
                raise LibraryError("depths that do not divide")
            groups = channels // inward
            each = outward // groups
            shape = (groups, each, inward, high, wide)
            strides = (each, 1, outward, wide * inward * outward, inward * outward)
        self.filters = strided(library, shape, strides)
        self.any_filters = anyhow(library, shape)
        self.filter_shape = w
        self.is_grouped = channels != inward
        self.images = image(library, count, sizes, channels, first)
        self.results = image(library, count, geometry.out, outward, first)
        # NCHW is no layout to compute in: the primitive chooses one, and images are brought into it.
        self.any_images = anyhow(library, (count, channels, *sizes)) if first else self.images
        self.any_results = anyhow(library, (count, outward, *geometry.out)) if first else self.results
        self.input = x
        self.output = (count, outward, *geometry.out) if first else (count, *geometry.out, outward)
        self.slides = (
            dims(geometry.strides),
            dims([d - 1 for d in geometry.dilations]),
            dims(geometry.before),
            dims(geometry.after),
        )
        self.attributes = attributes(library)

    def forward(self, prop: int, attrs: Handle | None = None, filters: Handle | None = None) -> Description:
        """
        filters   how they lie; as suits the primitive, if nothing is said
        """
        library = self.library
        return Description(
            library,
            "convolution_forward",
            library.engine,
            prop,
            DIRECT,
            self.any_images.value,
            (filters or self.any_filters).value,
            None,
            self.any_results.value,
            *self.slides,
            (attrs or self.attributes).value,
        )

    def input_gradient(self, filters: Handle | None = None) -> Description:
        library, hint = self.library, self.forward(FORWARD_TRAINING)
        return Description(
            library,
            "convolution_backward_data",
            library.engine,
            DIRECT,
            self.any_images.value,
            (filters or self.any_filters).value,
            self.any_results.value,
            *self.slides,
            hint.value,
            self.attributes.value,
        )

    def filter_gradient(self, filters: Handle | None = None) -> Description:
        library, hint = self.library, self.forward(FORWARD_TRAINING)
        return Description(
            library,
            "convolution_backward_weights",
            library.engine,
            DIRECT,
            self.any_images.value,
            (filters or self.any_filters).value,
            None,
            self.any_results.value,
            *self.slides,
            hint.value,
            self.attributes.value,
        )


def _geometry(sliding: WindowAttributes, sizes: tuple[int, ...], window: tuple[int, ...]) -> Windows:
    first = sliding.first
    for values in (sliding.strides, sliding.dilations):
        if len(values) != 4 or values[0] != 1 or values[1 if first else 3] != 1:
            raise LibraryError("a stride of batch or depth")
    if sliding.depthwise and spatial(sliding.strides, first)[0] != spatial(sliding.strides, first)[1]:
        raise LibraryError("unequal strides, which the op does not allow")
    pairs = explicit_pairs(sliding.explicit, first) if sliding.padding == b"EXPLICIT" else ()
    try:
        return windows(
            sizes,
            window,
            spatial(sliding.strides, first),
            spatial(sliding.dilations, first),
            sliding.padding,
            pairs,
        )
    except OpError as error:
        raise LibraryError("windows that do not fit") from error


def readable(program: PrimitiveProgram, plain: Handle, wanted: Handle, attrs: Handle) -> int:
    """The memory to read of what the caller gives: that itself, or a copy that is brought into order."""
    outer = program.outside(plain)
    if program.library.equal(plain.value, wanted.value):
        return outer
    inner = program.inside(wanted)
    program.reorder(outer, inner, attrs)
    return inner


def finish(
    program: PrimitiveProgram,
    what: Description,
    arguments: dict[int, int],
    result: int,
    plain: Handle,
    produced: Handle,
    attrs: Handle,
) -> None:
    """The step itself, whose result is brought into the caller's order where it has another."""
    outer = program.outside(plain)
    if program.library.equal(plain.value, produced.value):
        program.step(what, {**arguments, result: outer})
        return
    inner = program.inside(produced)
    program.step(what, {**arguments, result: inner})
    program.reorder(inner, outer, attrs)
