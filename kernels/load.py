"""Imports every kernel module once, explicitly, so that `registry.REGISTRY` is whole."""

from __future__ import annotations

import importlib
from typing import Final

from flowengine.kernels.registry import REGISTRY, KernelRegistry

#: One line a module, in the order in which they register.
MODULES: Final = (
    "control_flow",
    "state",
    "resource_variables",
    "scatter",
    "queues",
    "tensor_array",
    "stack",
    "tables",
    "table_files",
    "accumulators",
    "staging",
    "barriers",
    "mutexes",
    "batching",
    "string_hash",
    "string_format",
    "constants",
    "identity",
    "printing",
    "array_shapes",
    "transpose",
    "joining",
    "slicing",
    "sliced_assign",
    "padding",
    "gather",
    "gather_tree",
    "scatter_values",
    "one_hot",
    "unique",
    "where",
    "reverse",
    "partition",
    "matrix_parts",
    "segments",
    "sparse_segments",
    "inplace",
    "search",
    "patches",
    "space_batch",
    "tensor_list",
    "tensor_list_joining",
    "math_unary",
    "math_binary",
    "math_division",
    "math_compare",
    "math_gradients",
    "math_special",
    "math_sequences",
    "cast",
    "reductions",
    "matrix",
    "nn_activations",
    "nn_softmax",
    "nn_conv",
    "nn_pool",
    "nn_norm",
    "nn_dilation",
    "training",
    "random",
    "candidates",
    "sorting",
    "image",
    "image_boxes",
    "summaries",
)

_loaded = False


def load_all() -> KernelRegistry:
    """The registry with every kernel of this package in it; imports on the first call only."""
    global _loaded
    if not _loaded:
        for name in MODULES:
            importlib.import_module(f"flowengine.kernels.{name}")
        _loaded = True
    return REGISTRY
