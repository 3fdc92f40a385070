"""Single nodes by our CUDA C, cuBLAS and cuDNN, a file a family."""

from flowengine.kernels.cuda.overrides import (
    biases,
    convolutions,
    elementwise,
    normalization,
    poolings,
    products,
    random_numbers,
    responses,
    rows,
    softmaxes,
    updates,
)

__all__ = [
    "biases",
    "convolutions",
    "elementwise",
    "normalization",
    "poolings",
    "products",
    "random_numbers",
    "responses",
    "rows",
    "softmaxes",
    "updates",
]
