"""Images read at places that lie between pixels: by the images, and by the places."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Resampler", "Addons>Resampler")
def resampler(b: Backward, op: Operation, grad: Tensor) -> Results:
    """images (N, H, W, C), places (N, ..., 2)"""
    data, warp = op.inputs
    by_data, by_warp = b.ops.ResamplerGrad(data, warp, grad)
    return [by_data, by_warp]
