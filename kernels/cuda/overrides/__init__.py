"""Single nodes by our CUDA C and by cuBLAS, a file a family."""

from flowengine.kernels.cuda.overrides import (
    biases,
    elementwise,
    normalization,
    poolings,
    products,
    responses,
    rows,
    softmaxes,
    updates,
)

__all__ = [
    "biases",
    "elementwise",
    "normalization",
    "poolings",
    "products",
    "responses",
    "rows",
    "softmaxes",
    "updates",
]
