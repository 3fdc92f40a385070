"""The guard of a step: it ends the step at the first value that is not finite or out of its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.variable import Variable
from flowengine.runtime.failures import frame_of
from flowengine.runtime.guarding.claim_members import first_bad_member, has_bounds_within
from flowengine.runtime.guarding.value_checks import (
    Bounds,
    ValueFault,
    array_of,
    digest,
    fault_of,
    is_finite,
)
from flowengine.runtime.guarding.watched import Tag
from flowengine.runtime.planning.items import Item


@dataclass(frozen=True, slots=True)
class Guard:
    """The request of `RunOptions(guard=...)`.

    bounds   {pattern of node names: (least, largest value)}
    file     gets the inputs and outputs of the node that is found, as a .npz file: its name, or an open file;
             None for none
    """

    bounds: Bounds = field(default_factory=dict)
    file: str | BinaryIO | None = None

    def before(self, item: Item, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the inputs of an item that writes variables as they are now; None for any other item."""
        return [array_of(value) for value in inputs] if item.mutates else None

    def look(
        self,
        item: Item,
        tag: Tag,
        inputs: Sequence[Any],
        outputs: Any,
        found_before: Sequence[Any] | None = None,
    ) -> None:
        """Look at the outputs of an item, and at the variables among its inputs if it writes some.

        found_before   the result of `before`

        Raises InvalidArgumentError if one is not finite though all inputs were, or is out of its bounds. Of a
        claim, the error is that of the member that makes such a value when the members run by themselves.
        """
        made = () if outputs is None else (outputs,) if item.single else tuple(outputs)
        if item.mutates:
            made += tuple(value for value in inputs if isinstance(value, Variable))
        fault = fault_of(item.name, made, self.bounds)
        if fault is None and not has_bounds_within(item, self.bounds):
            return
        member = first_bad_member(item, inputs, found_before, self.bounds)
        if member is not None:
            run, fault = member
            raise self._error(fault, run.inputs, run.outputs).locate(
                node_name=run.node.name,
                op_type=run.node.op,
                device=run.node.device,
                frame=frame_of(tag),
                creation_site=run.node.creation_site or None,
            )
        if fault is None:
            return
        if found_before is not None:
            inputs = found_before
        if fault.is_of_bounds or all(map(is_finite, inputs)):
            raise self._error(fault, inputs, made)

    def _error(self, fault: ValueFault, inputs: Sequence[Any], made: Sequence[Any]) -> InvalidArgumentError:
        known = "".join(f"; input {slot}: {digest(value)}" for slot, value in enumerate(inputs))
        error = InvalidArgumentError(f"guard: output {fault.slot} has {fault.reason}{known}")
        if self.file is not None:
            self._keep(error, inputs, made)
        return error

    def _keep(self, error: InvalidArgumentError, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        assert self.file is not None
        arrays: Mapping[str, Any] = {
            f"{side}_{slot}": array_of(value)
            for side, values in (("input", inputs), ("output", made))
            for slot, value in enumerate(values)
            if array_of(value) is not None
        }
        try:
            np.savez(Path(self.file) if isinstance(self.file, str) else self.file, **arrays)
        except OSError as failure:
            error.add_note(f"its values could not be kept in {self.file}: {failure.strerror}")
        else:
            if isinstance(self.file, str):
                error.add_note(f"its inputs and outputs are in {self.file}")


__all__ = ["Guard"]
