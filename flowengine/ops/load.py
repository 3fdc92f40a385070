"""Loads every family of ops, once, when first asked."""

from __future__ import annotations

import importlib
from typing import Final

from flowengine.ir.opdef import OpRegistry
from flowengine.ops.registry import REGISTRY

#: The modules of this package that define ops, one a family.
FAMILIES: Final = (
    "accumulators",
    "array",
    "array_blocks",
    "array_indexing",
    "array_layout",
    "array_matrix",
    "array_slicing",
    "audio",
    "batch",
    "bitwise",
    "candidates",
    "checkpoint",
    "clustering",
    "control_flow",
    "ctc",
    "data",
    "data_flow",
    "data_iterators",
    "files",
    "functional",
    "image",
    "image_boxes",
    "image_coding",
    "linalg",
    "linear_models",
    "logging",
    "lookup",
    "math",
    "math_binary",
    "math_counting",
    "math_unary",
    "matrix",
    "nn",
    "nn_conv",
    "nn_norm",
    "nn_pool",
    "parsing",
    "quantized",
    "quantized_conv",
    "quantized_nn",
    "queues",
    "ragged",
    "random",
    "reductions",
    "resource_variable",
    "rnn",
    "segments",
    "sendrecv",
    "set",
    "sparse",
    "sparse_serialized",
    "spectral",
    "stack",
    "staging",
    "state",
    "stateful_random",
    "stateless_random",
    "string",
    "summary",
    "summary_writer",
    "tensor_array",
    "tensor_list",
    "training",
    "training_resource",
    "training_resource_sparse",
    "training_sparse",
    "word2vec",
)

_loaded = False


def load_all() -> None:
    """Import every family. Cheap when done before."""
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"flowengine.ops.{family}")
        _loaded = True


def registry() -> OpRegistry:
    """The registry with every op of this package."""
    load_all()
    return REGISTRY
