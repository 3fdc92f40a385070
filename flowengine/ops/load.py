"""The registry of every op of this package, loaded a family at a time as ops are asked for."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from typing import Final

from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.registry import REGISTRY

#: The modules of this package that define ops, one a family. First those that most graphs use: a small
#: graph then costs a fifth of the whole, which takes about 20 ms.
FAMILIES: Final = (
    "array",
    "math_binary",
    "control_flow",
    "array_layout",
    "state",
    "math_unary",
    "matrix",
    "mutexes",
    "nn",
    "reductions",
    "math",
    "array_slicing",
    "nn_conv",
    "array_indexing",
    "nn_pool",
    "logging",
    "resource_variable",
    "training",
    "random",
    "files",
    "string",
    "tensor_array",
    "stack",
    "segments",
    "data_flow",
    "nn_norm",
    "queues",
    "training_resource",
    "training_sparse",
    "functional",
    "tensor_list",
    "image",
    "sparse",
    "parsing",
    "accumulators",
    "array_blocks",
    "array_matrix",
    "audio",
    "batch",
    "bitwise",
    "candidates",
    "checkpoint",
    "clustering",
    "ctc",
    "data",
    "data_iterators",
    "image_boxes",
    "image_coding",
    "linalg",
    "linear_models",
    "lookup",
    "math_counting",
    "quantized",
    "quantized_conv",
    "quantized_nn",
    "ragged",
    "rnn",
    "sendrecv",
    "set",
    "sparse_serialized",
    "spectral",
    "staging",
    "stateful_random",
    "stateless_random",
    "summary",
    "summary_writer",
    "training_resource_sparse",
    "word2vec",
)


class _Families(OpRegistry):
    """Loads the next family until the op that is asked for is found."""

    def __init__(self) -> None:
        super().__init__(parent=REGISTRY)
        self._loaded = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> OpDef | None:
        found = REGISTRY.get(name)
        while found is None and self.load_next():
            found = REGISTRY.get(name)
        return found

    def load_next(self) -> bool:
        """Import one more family; False if there is none left."""
        with self._lock:
            if self._loaded == len(FAMILIES):
                return False
            importlib.import_module(f"flowengine.ops.{FAMILIES[self._loaded]}")
            self._loaded += 1
            return True

    def register(self, definition: OpDef) -> OpDef:
        """Add an op to all graphs of the process; better is a registry of one's own, with this as parent."""
        self.get(definition.name)
        return REGISTRY.register(definition)

    def __iter__(self) -> Iterator[str]:
        load_all()
        return iter(REGISTRY)


_standard: Final = _Families()


def load_all() -> None:
    """Import every family. Cheap when done before."""
    while _standard.load_next():
        pass


def registry() -> OpRegistry:
    """The registry with every op of this package."""
    return _standard
