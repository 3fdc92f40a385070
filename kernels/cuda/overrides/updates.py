"""Steps of optimizers on variables, by node or over many nodes at once: `kernels/cuda/optimizers.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import in_host_memory
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.cuda.optimizers import RULES, AddressTables, UpdatedVariable, apply_all
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher
from flowengine.kernels.training.apply import DenseUpdate, dense_updates

#: {op: the optimizer, a key of `RULES`}, of the ops by reference and by handle.
_OPTIMIZERS: Final[Mapping[str, str]] = {
    op: op.removeprefix("Resource").removeprefix("Apply") for op in dense_updates()
}


class CardUpdates:
    """Steps of one optimizer, by the same numbers, on as many variables as are given."""

    def __init__(self, launcher: SessionLauncher, op: str, attrs: Mapping[str, Any]) -> None:
        """
        op      of the nodes, as `ApplyAdam` or `ResourceApplyAdam`
        attrs   theirs: what the rule is told besides numbers
        """
        self._launcher = launcher
        self._update: DenseUpdate = dense_updates()[op]
        self._optimizer = _OPTIMIZERS[op]
        self._flags = {name: float(bool(attrs[name])) for name in self._update.attrs}
        self._tables = AddressTables()

    def run(self, variables: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        """Change the variables; False, nothing being changed, for what is not usual.

        variables   first all of them, then for each slot that of each
        """
        count = len(gradients)
        if len(set(map(id, variables))) < len(variables):
            return False  # two names may be one variable's
        try:
            arrays = [variable.mutable() for variable in variables]
        except OpError:
            return False
        if not self._are_usual(arrays, numbers, gradients):
            return False
        launcher = self._launcher
        updated = [
            UpdatedVariable(arrays[place::count], dense(launcher, gradient))
            for place, gradient in enumerate(gradients)
        ]
        named = dict(zip(self._update.numbers, numbers, strict=True)) | self._flags
        apply_all(launcher, self._optimizer, updated, named, self._tables)
        return True

    def _are_usual(self, arrays: Sequence[Any], numbers: Sequence[Any], gradients: Sequence[Any]) -> bool:
        """Whether shapes and types fit."""
        dtype, count = arrays[0].dtype, len(gradients)
        if any(np.ndim(n) or (not in_host_memory(n) and n.dtype != dtype) for n in numbers):
            return False
        return all(
            array.shape == gradients[place % count].shape
            and array.dtype == gradients[place % count].dtype == dtype
            and array.flags.c_contiguous
            for place, array in enumerate(arrays)
        )


@serves(*(op for op, optimizer in _OPTIMIZERS.items() if optimizer in RULES), family="optimizers")
def update_kernel(launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    updates = CardUpdates(launcher, node.op, node.attrs)
    update = dense_updates()[node.op]
    slots = len(update.slots)
    gives_variable = bool(node.output_types)

    def compute(*arguments: Any) -> Any:
        numbers = list(arguments[slots:])
        gradient = numbers.pop(update.gradient)
        if not updates.run(arguments[:slots], numbers, [gradient]):
            return otherwise(*arguments)
        return arguments[0] if gives_variable else None

    return compute


__all__ = ["CardUpdates", "update_kernel"]
