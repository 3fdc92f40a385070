"""What follows a convolution or product and is computed with it: biases, normalisation, residuals, Relu.

It is told by *forms*, one for each operand: "bias" (the first, added for nothing), "add channel",
"mul number", "sub whole" and so on, by how far the operand reaches, and "relu", which has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.kernels.onednn.objects import After, Handle
from flowengine.kernels.onednn.program import operand_after

BIAS_FORM: Final = "bias"
RELU_FORM: Final = "relu"

_BINARY: Final = {"add": 0x1FFF0, "mul": 0x1FFF1, "sub": 0x1FFF5}
_HARD_SWISH: Final = 0x34
_LINEAR: Final = 0x26
#: max(x, 0) as x * min(max(3e38 x, 0), 1): the library's own Relu makes 0 of NaN. Adding 0 makes 0 of -0.
_RELU: Final[tuple[After, ...]] = (("eltwise", _HARD_SWISH, 3e38, 0.0), ("eltwise", _LINEAR, 1.0, 0.0))


def attached(
    forms: Sequence[str], channel: Handle, number: Handle, whole: Handle
) -> tuple[list[After], list[tuple[int, Handle]]]:
    """(what a primitive is to do last, (number, descriptor) of each operand), a bias left out."""
    after: list[After] = []
    operands = []
    reaches = {"channel": channel, "number": number, "whole": whole}
    for form in forms:
        if form == RELU_FORM:
            after.extend(_RELU)
        elif form != BIAS_FORM:
            function, reach = form.split()
            operands.append((operand_after(len(after)), reaches[reach]))
            after.append(("binary", _BINARY[function], reaches[reach]))
    return after, operands
