"""The memory of a step: the bytes of its tensors, and a refusal before a limit is passed.

Only a session with a limit, or one that counts allocations, pays for this. Each kernel is checked twice:
before it runs, at the size that the op's shape function gives for its actual inputs, so that one absurd Fill
allocates nothing; and after it, at the memory that its outputs own, which counts until the last reference to
it goes. A kernel asks for sizes that no shape function can tell as it runs. The step has a ledger; so have
each device and the session, which also count variables and outlive the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.accounting import REFERENCE_BYTES, Composite, bytes_of
from flowengine.core.errors import OpError, ResourceExhaustedError
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device
from flowengine.devices.strings import CountedValues
from flowengine.ops.concrete import ConcreteInputs
from flowengine.resources.variable import Variable
from flowengine.runtime.planning.items import Item


class MemoryMeter:
    """Counts the tensors that the kernels of one step on one device make and hold: an `accounting.Account`.

    step   the ledger of the whole step; partitions of one step share it
    """

    def __init__(self, step: Ledger, device: Device, producer: int, session: Ledger | None = None) -> None:
        """`session` is the ledger of all steps and resources together, if there is one."""
        self.step = step
        self._device = device
        self._ledgers = (step, device.ledger) if session is None else (step, device.ledger, session)
        self._lasting = self._ledgers[1:]
        self._has_limit = any(ledger.limit_bytes is not None for ledger in self._ledgers)
        self._texts = CountedValues(self._ledgers)
        self._producer = producer

    def check(self, wanted: int = 0) -> None:
        """Raise ResourceExhaustedError if so many more bytes pass a limit."""
        try:
            self._check(wanted)
        except ResourceExhaustedError:
            self._texts.sweep()
            self._check(wanted)

    def _check(self, wanted: int) -> None:
        for ledger in self._ledgers:
            ledger.check(wanted)

    def book(self, owner: Any, size: int, holder: str) -> None:
        """Record how many bytes an object that lives in the step holds now."""
        for ledger in self._ledgers:
            ledger.book(owner, size, holder)

    def check_before(self, item: Item, inputs: Sequence[Any]) -> None:
        """Raise ResourceExhaustedError if the outputs, as far as their shapes are known, would not fit.

        The inputs are alive while the kernel runs, even if they are freed afterwards.
        """
        if not self._has_limit:
            return
        if item.mutates:
            growth = sum(_growth(value, inputs) for value in inputs if isinstance(value, Variable))
            if growth:
                for ledger in self._lasting:
                    ledger.check(growth)
        wanted = 0
        op_def = None if item.lends_memory else item.node.op_def
        if op_def is not None and op_def.shape is not None:
            try:
                shapes = op_def.shape(ConcreteInputs(item.node, inputs, self._producer))
            except (OpError, TypeError, ValueError, AttributeError, IndexError):
                shapes = ()  # the kernel itself reports its wrong inputs
            for shape, dtype in zip(shapes, item.node.output_types, strict=False):
                if not dtype.is_ref:
                    wanted += (shape.num_elements() or 0) * (dtype.size or REFERENCE_BYTES)
        self.check(wanted)

    def count(self, item: Item, outputs: Any, inputs: Sequence[Any] = ()) -> None:
        """Count the outputs of a kernel, and the new size of a variable among its inputs.

        Raises ResourceExhaustedError if that is too much.
        """
        for value in outputs if isinstance(outputs, tuple) else (outputs,):
            self._count(item.name, value)
        if item.mutates:
            for value in inputs:
                if isinstance(value, Variable):
                    self._count_variable(value)
        self.check()

    def _count(self, holder: str, value: Any) -> None:
        if isinstance(value, bytes):
            self._texts.hold(value)
            return
        owned = self._device.owner_of(value)
        if owned is not None:
            for ledger in self._ledgers:
                ledger.hold(*owned, holder)
        elif isinstance(value, Composite):
            self._count_parts(holder, value)

    def _count_parts(self, holder: str, value: Composite) -> None:
        """Return the references of a list that are its own, and their referents if not known yet."""
        storage = getattr(value, "storage", None)
        if storage is not None:
            is_known = self.step.knows(storage)
            self.book(storage, storage.nbytes, holder)
            if is_known:
                return
        for part in value.held_values():
            if part is not None:
                self._count(holder, part)

    def _count_variable(self, variable: Variable) -> None:
        owned = self._device.owner_of(variable.held())
        if owned is not None:
            for ledger in self._lasting:
                ledger.book(*owned, variable.name)

    def close(self) -> None:
        """Return all bytes to the ledgers, because the step is over."""
        self._texts.clear()


def _growth(variable: Variable, inputs: Sequence[Any]) -> int:
    """Return an upper bound of the bytes that a kernel with these inputs adds to a variable."""
    is_lent = variable.is_lent()  # asked first: the holder of the array lends it
    held = variable.held()
    size = 0 if held is None else bytes_of(held)
    written = max((bytes_of(value) for value in inputs if value is not variable), default=0)
    return max(written - size, size if is_lent else 0)
