"""What follows a convolution or product and is computed with it: biases, normalisation, residuals, Relu.

It is told by *forms*, one for each operand: "add channel", "mul number", "sub whole" and so on, by how far
the operand reaches, and "relu", whose operand is `ZERO`. A bias is added like any operand: what the library
calls one is where some of its implementations begin the sum, and is rounded otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.objects import After, Handle
from flowengine.kernels.onednn.program import SRC_1, WEIGHTS, operand_after

RELU_FORM: Final = "relu"

_BINARY: Final = {"add": 0x1FFF0, "mul": 0x1FFF1, "sub": 0x1FFF5}
_LINEAR: Final = 0x26
#: What makes 0 of -0.
_PLUS_ZERO: Final[After] = ("eltwise", _LINEAR, 1.0, 0.0)
#: What Relu multiplies by where nothing is positive. The library's own Relu makes 0 of NaN; one with a slope
#: that is given at each call keeps it, and every other number but -inf, of which it makes NaN.
ZERO: Final[Array] = np.zeros(1, np.float32)
ZERO.flags.writeable = False


def attached(
    forms: Sequence[str], channel: Handle, number: Handle, whole: Handle
) -> tuple[list[After], list[tuple[int, Handle]]]:
    """(what a primitive is to do last, (number, descriptor) of each operand)."""
    after: list[After] = []
    operands = []
    reaches = {"channel": channel, "number": number, "whole": whole}
    for form in forms:
        if form == RELU_FORM:
            operands.append((operand_after(len(after)) & ~SRC_1 | WEIGHTS, number))
            after.extend((("prelu", 0), _PLUS_ZERO))
        else:
            function, reach = form.split()
            operands.append((operand_after(len(after)), reaches[reach]))
            after.append(("binary", _BINARY[function], reaches[reach]))
    return after, operands
