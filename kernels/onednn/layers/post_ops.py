"""The work behind a convolution or product, computed with it: biases, normalisation, residuals, Relu.

It is told by *forms*, one for each operand: "add channel", "mul number", "sub whole" and so on, by how far
the operand reaches, and "relu" and "relu6", whose operand is `ZERO`. A bias is added like any operand: what
the library calls one is where some of its implementations begin the sum, and is rounded otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.objects import After, Handle
from flowengine.kernels.onednn.programs.program import SRC_1, WEIGHTS, operand_after

RELU_FORM: Final = "relu"
RELU6_FORM: Final = "relu6"

_BINARY: Final = {"add": 0x1FFF0, "mul": 0x1FFF1, "sub": 0x1FFF5}
_RELU: Final = 0x20
_LINEAR: Final = 0x26
_CLIP: Final = 0x2E
#: What makes 0 of -0.
_PLUS_ZERO: Final[After] = ("eltwise", _LINEAR, 1.0, 0.0)
#: What Relu multiplies by where nothing is positive. The library's own Relu makes 0 of NaN; one with a slope
#: that is given at each call keeps it, and every other number but -inf, of which it makes NaN.
ZERO: Final[Array] = np.zeros(1, np.float32)
ZERO.flags.writeable = False
_LOWEST: Final = float(np.finfo(np.float32).min)
_ABOVE_ONE: Final = float(np.nextafter(np.float32(1), np.float32(2)))
#: What makes a Relu behind it a Relu6, and keeps NaN as well. The library clips NaN to the lower end. That is
#: the lowest number here, which the next step, by a slope just above 1, brings to -inf, and of that the Relu
#: makes NaN again. To what else is negative it does not matter.
_UP_TO_6: Final[tuple[After, ...]] = (("eltwise", _CLIP, _LOWEST, 6.0), ("eltwise", _RELU, _ABOVE_ONE, 0.0))


def attached(
    forms: Sequence[str], channel: Handle, number: Handle, whole: Handle, ahead: Sequence[After] = ()
) -> tuple[list[After], list[tuple[int, Handle]]]:
    """(what a primitive is to do last, (number, descriptor) of each operand).

    ahead   what it does before, which has no operands
    """
    after: list[After] = list(ahead)
    operands = []
    reaches = {"channel": channel, "number": number, "whole": whole}
    for form in forms:
        if form in (RELU_FORM, RELU6_FORM):
            if form == RELU6_FORM:
                after.extend(_UP_TO_6)
            operands.append((operand_after(len(after)) & ~SRC_1 | WEIGHTS, number))
            after.extend((("prelu", 0), _PLUS_ZERO))
        else:
            function, reach = form.split()
            operands.append((operand_after(len(after)), reaches[reach]))
            after.append(("binary", _BINARY[function], reaches[reach]))
    return after, operands
