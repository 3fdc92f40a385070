"""Elementwise kernels of several passes over large arrays: a block at a time, on every core.

Each is the kernel for arrays of any library, whose passes here go over what the pass before left in cache.
"""

from __future__ import annotations

import functools
from typing import Any, cast

from flowengine.kernels.common.blockwise import LARGE, in_blocks
from flowengine.kernels.common.ufuncs import KernelFunction, float_kernel
from flowengine.kernels.math import binary, special, unary
from flowengine.kernels.math import binary as division
from flowengine.kernels.math import unary as gradients
from flowengine.kernels.nn import activations
from flowengine.kernels.registry import kernel


def _blocks_of(function: KernelFunction) -> KernelFunction:
    """The kernel, of large arrays of one shape in blocks; its inputs and its output are of one type."""

    @functools.wraps(function)
    def large(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        if arrays[0].size < LARGE:
            return function(xp, *arrays, **attrs)
        return in_blocks(functools.partial(function, xp, **attrs), *arrays)

    return cast(KernelFunction, large)


kernel("SquaredDifference", device="CPU", fresh=True)(_blocks_of(binary.squared_difference))
kernel("MulNoNan", device="CPU", fresh=True)(_blocks_of(binary.mul_no_nan))
kernel("DivNoNan", device="CPU", fresh=True)(_blocks_of(division.div_no_nan))
kernel("Relu6Grad", device="CPU", fresh=True)(_blocks_of(activations.relu6_grad))
float_kernel("Xlogy", device="CPU", fresh=True)(_blocks_of(binary.xlogy))
float_kernel("Xlog1py", device="CPU", fresh=True)(_blocks_of(binary.xlog1py))
float_kernel("Xdivy", device="CPU", fresh=True)(_blocks_of(binary.xdivy))
float_kernel("Rsqrt", device="CPU", fresh=True)(_blocks_of(unary.rsqrt))
float_kernel("Erf", device="CPU", fresh=True)(_blocks_of(special.erf))
float_kernel("InvGrad", "ReciprocalGrad", device="CPU", fresh=True)(_blocks_of(gradients.inv_grad))
float_kernel("SqrtGrad", device="CPU", fresh=True)(_blocks_of(gradients.sqrt_grad))
float_kernel("RsqrtGrad", device="CPU", fresh=True)(_blocks_of(gradients.rsqrt_grad))
float_kernel("SigmoidGrad", device="CPU", fresh=True)(_blocks_of(gradients.sigmoid_grad))
float_kernel("TanhGrad", device="CPU", fresh=True)(_blocks_of(gradients.tanh_grad))
float_kernel("LeakyRelu", device="CPU", fresh=True)(_blocks_of(activations.leaky_relu))
float_kernel("LeakyReluGrad", device="CPU", fresh=True)(_blocks_of(activations.leaky_relu_grad))
float_kernel("EluGrad", device="CPU", fresh=True)(_blocks_of(activations.elu_grad))
float_kernel("SeluGrad", device="CPU", fresh=True)(_blocks_of(activations.selu_grad))
float_kernel("SoftplusGrad", device="CPU", fresh=True)(_blocks_of(activations.softplus_grad))
float_kernel("Softsign", device="CPU", fresh=True)(_blocks_of(activations.softsign))
float_kernel("SoftsignGrad", device="CPU", fresh=True)(_blocks_of(activations.softsign_grad))
