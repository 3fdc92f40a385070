"""The memory limit of a step: what its tensors hold, and a refusal before the bound is passed.

Only a session with `Config(memory_limit_bytes=...)` pays for this. Two looks are taken at each kernel:
before it runs, at the size that the op's shape function gives for its actual inputs, so that one absurd
Fill allocates nothing; and after it, at the memory that its outputs own, which is counted until the last
reference to it goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowengine.core.errors import OpError, ResourceExhaustedError
from flowengine.ops.concrete import ConcreteInputs
from flowengine.runtime.items import Item

#: How many of the largest tensors an error names.
_NAMED = 3


class MemoryMeter:
    """Bytes of the tensors that one step's kernels have made and that are still alive.

    live, peak   bytes now, and at most so far
    """

    def __init__(self, limit_bytes: int, producer: int) -> None:
        self.limit_bytes = limit_bytes
        self.live = 0
        self.peak = 0
        self._producer = producer
        #: {id of an array that owns its memory: (its bytes, the node that made it, a weak reference)}
        self._owners: dict[int, tuple[int, str, weakref.ref[Any]]] = {}

    def check_before(self, item: Item, inputs: Sequence[Any]) -> None:
        """ResourceExhaustedError if the outputs, as far as their shapes are known, would not fit.

        The inputs are alive while the kernel runs, whatever becomes of them afterwards.
        """
        op_def = item.node.op_def
        if op_def is None or op_def.shape is None:
            return
        try:
            shapes = op_def.shape(ConcreteInputs(item.node, inputs, self._producer))
        except (OpError, TypeError, ValueError, AttributeError, IndexError):
            return  # the kernel itself says what is wrong with its inputs
        wanted = 0
        for shape, dtype in zip(shapes, item.node.output_types, strict=False):
            wanted += (shape.num_elements() or 0) * dtype.size
        if self.live + wanted > self.limit_bytes:
            raise self._exhausted(wanted)

    def count(self, item: Item, outputs: Any) -> None:
        """Count what a kernel returned; ResourceExhaustedError if the step now holds too much."""
        for value in _arrays(outputs):
            owner = value
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            key = id(owner)
            if key in self._owners or not owner.flags.owndata:
                continue
            size = owner.nbytes
            reference = weakref.ref(owner, partial(self._forget, key))
            self._owners[key] = (size, item.name, reference)
            self.live += size
        self.peak = max(self.peak, self.live)
        if self.live > self.limit_bytes:
            raise self._exhausted(0)

    def _forget(self, key: int, _: object) -> None:
        size, _, _ = self._owners.pop(key)
        self.live -= size

    def _exhausted(self, wanted: int) -> ResourceExhaustedError:
        largest = sorted(self._owners.values(), key=lambda entry: -entry[0])[:_NAMED]
        holders = "; ".join(f"'{name}' holds {size:,}" for size, name, _ in largest) or "nothing yet"
        asked = f"{wanted:,} bytes are wanted for its outputs and " if wanted else ""
        return ResourceExhaustedError(
            f"{asked}{self.live:,} bytes are in use, the limit is {self.limit_bytes:,} "
            f"(memory_limit_bytes); the largest tensors: {holders}"
        )


def _arrays(outputs: Any) -> Iterable[Any]:
    if isinstance(outputs, np.ndarray):
        return (outputs,)
    if isinstance(outputs, tuple):
        return tuple(value for value in outputs if isinstance(value, np.ndarray))
    return ()
