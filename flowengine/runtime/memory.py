"""The memory of a step: what its tensors hold, and a refusal before a bound is passed.

Only a session with a limit, or one that counts allocations, pays for this. Two looks are taken at each
kernel: before it runs, at the size that the op's shape function gives for its actual inputs, so that one
absurd Fill allocates nothing; and after it, at the memory that its outputs own, which is counted until the
last reference to it goes. The step has a ledger, and each device one of its own, which counts variables too
and outlives the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.accounting import REFERENCE_BYTES, text_bytes
from flowengine.core.errors import OpError
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device
from flowengine.ops.concrete import ConcreteInputs
from flowengine.resources.variable import Variable
from flowengine.runtime.planning.items import Item


class MemoryMeter:
    """Counts what the kernels of one step on one device make and hold."""

    def __init__(self, step: Ledger, device: Device, producer: int) -> None:
        """`step` is the ledger of the whole step; partitions of one step share it."""
        self.step = step
        self._device = device
        self._ledgers = (step, device.ledger)
        self._producer = producer

    def check_before(self, item: Item, inputs: Sequence[Any]) -> None:
        """ResourceExhaustedError if the outputs, as far as their shapes are known, would not fit.

        The inputs are alive while the kernel runs, whatever becomes of them afterwards.
        """
        if all(ledger.limit_bytes is None for ledger in self._ledgers):
            return
        op_def = item.node.op_def
        if op_def is None or op_def.shape is None:
            return
        try:
            shapes = op_def.shape(ConcreteInputs(item.node, inputs, self._producer))
        except (OpError, TypeError, ValueError, AttributeError, IndexError):
            return  # the kernel itself says what is wrong with its inputs
        wanted = 0
        for shape, dtype in zip(shapes, item.node.output_types, strict=False):
            if not dtype.is_ref:
                wanted += (shape.num_elements() or 0) * (dtype.size or REFERENCE_BYTES)
        for ledger in self._ledgers:
            ledger.check(wanted)

    def count(self, item: Item, outputs: Any, inputs: Sequence[Any] = ()) -> None:
        """Count what a kernel returned, and what a variable among its inputs came to hold.

        Raises ResourceExhaustedError if that is too much.
        """
        texts = 0
        for value in outputs if isinstance(outputs, tuple) else (outputs,):
            if isinstance(value, bytes):
                texts += text_bytes(value)  # when its last reference goes, nobody is told
                continue
            owned = self._device.owner_of(value)
            if owned is not None:
                for ledger in self._ledgers:
                    ledger.hold(*owned, item.name)
        if item.mutates:
            for value in inputs:
                if isinstance(value, Variable):
                    self._count_variable(value)
        for ledger in self._ledgers:
            ledger.check(texts)

    def _count_variable(self, variable: Variable) -> None:
        owned = self._device.owner_of(variable.held())
        if owned is not None:
            self._device.ledger.hold(*owned, variable.name)
