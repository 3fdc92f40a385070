"""The gradient of filters of one pixel as a product of matrices.

    filters (I, O) = x^T (I, N H W) gradient (N H W, O)

The library's own convolution walks through images as they lie, and how quickly it does depends on how their
sizes meet the caches: 8 images of 28 x 28 pixels with 256 and 128 channels took 3.6 ms on one core, and those
of 35 x 35 with 288 and 48 half as long for each multiplication. The product brings one side into another
order first, the narrower one if it can, and is always about as quick as convolutions are at best: 2.2 ms.
"""

from __future__ import annotations

from typing import Final

from flowengine.kernels.onednn.layers.conv_products import product_sizes
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import LibraryError
from flowengine.kernels.onednn.objects import Description, attributes, dense, strided
from flowengine.kernels.onednn.programs.preparing import required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram

#: Channels that were measured.
_NARROWEST: Final = 16
_WIDEST: Final = 2048
#: Of so many channels, or less, the product of few by more is no quicker.
_FEW: Final = 64
#: The convolution is quick for inputs of so many channels; for multiples of it the product has to bring the
#: input, not the gradient, into another order.
_WIDE: Final = 512
#: It is also for images of an odd number of pixels from so many on, unless channels come in multiples.
_ODD_PIXELS: Final = 625
_MULTIPLE: Final = 128


def is_quicker(pixels: int, inward: int, outward: int) -> bool:
    """Whether the product takes less than the convolution.

    pixels            of an image
    inward, outward   channels of the input and of the gradient
    """
    most = max(inward, outward)
    if (
        min(inward, outward) < _NARROWEST
        or most > _WIDEST
        or inward < outward <= _FEW
        or inward == _WIDE >= outward
    ):
        return False
    return pixels % 2 == 0 or pixels < _ODD_PIXELS or most % _MULTIPLE == 0


def may_be_product(sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...]) -> bool:
    """Whether the gradient of filters of these shapes takes less as a product."""
    sizes = product_sizes(sliding, x, w)
    return sizes is not None and w[:2] == (1, 1) and is_quicker(x[1] * x[2], sizes[1], sizes[2])


def filter_product(
    sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...], alone: bool
) -> PrimitiveProgram | None:
    """A program that takes input, gradient and result; None where the convolution is as quick.

    x, w   shapes of input and filters
    """
    sizes = product_sizes(sliding, x, w)
    if sizes is None or not may_be_product(sliding, x, w):
        return None
    rows, inward, outward, _ = sizes
    library = required()
    attrs = attributes(library)
    # The transpose is brought into order at the end, which is worth it where that is less than it saves.
    exchanged = inward % _WIDE != 0 and rows * (inward - outward) > inward * outward
    if exchanged:
        factors = {
            WEIGHTS: dense(library, (rows, inward)),
            SRC: strided(library, (outward, rows), (1, outward)),
        }
        result = dense(library, (outward, inward))
    else:
        factors = {
            SRC: strided(library, (inward, rows), (1, inward)),
            WEIGHTS: dense(library, (rows, outward)),
        }
        result = dense(library, (inward, outward))
    try:
        what = Description(
            *(library, "matmul", library.engine),
            *(factors[SRC].value, factors[WEIGHTS].value, None, result.value, attrs.value),
        )
    except LibraryError:
        return None
    program = PrimitiveProgram(library, alone)
    arguments = {number: program.outside(form) for number, form in factors.items()}
    if exchanged:
        arguments[DST] = program.inside(result)
        program.step(what, arguments)
        filters = strided(library, (outward, inward), (1, outward))
        program.reorder(arguments[DST], program.outside(filters), attrs)
    else:
        program.step(what, {**arguments, DST: program.outside(result)})
    return program
