"""The members of a claim, run again one by one to find the one that made a bad value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flowengine.core.errors import OpError
from flowengine.kernels.provider import MemberRun, every_member, program_of
from flowengine.resources.variable import Variable
from flowengine.runtime.guarding.value_checks import (
    COPY_OUT,
    Bounds,
    ValueFault,
    array_of,
    fault_of,
    is_finite,
)
from flowengine.runtime.planning.items import Item, grouped


def has_bounds_within(item: Item, bounds: Bounds) -> bool:
    """Return whether a claim has members with bounds, whose values are seen only if they run alone."""
    program = program_of(item.node.attrs) if bounds else None
    return program is not None and any(
        fnmatchcase(name, pattern) for name in every_member(program) - {item.name} for pattern in bounds
    )


def first_bad_member(
    item: Item, inputs: Sequence[Any], found_before: Sequence[Any] | None, bounds: Bounds
) -> tuple[MemberRun, ValueFault] | None:
    """Return the first member of a claim that makes a bad value from good inputs, with its fault.

    found_before   the values of variables among the inputs, from before the claim ran

    None for a node that is no claim, and if no member makes such a value by itself. Variables stay as they
    are.
    """
    one_by_one = getattr(program_of(item.node.attrs), "one_by_one", None)
    if one_by_one is None or (item.mutates and COPY_OUT.get() is not None):
        return None  # variables in the memory of a device are not copied there
    runs: Iterator[MemberRun] = one_by_one(*grouped(item, _scratch(inputs, found_before)))
    try:
        for run in runs:
            fault = fault_of(run.node.name, run.outputs, bounds)
            if fault is not None and (fault.is_of_bounds or all(map(is_finite, run.inputs))):
                return run, fault
    except OpError:
        pass  # the claim had no such error, so its members do not tell what it did
    return None


def _scratch(inputs: Sequence[Any], found_before: Sequence[Any] | None) -> list[Any]:
    """Return the inputs with variables that nobody else has, in the state before the claim ran."""
    copies: dict[int, Variable] = {}
    for place, value in enumerate(inputs):
        if isinstance(value, Variable) and id(value) not in copies:
            copy = copies[id(value)] = Variable(value.name, value.dtype, value.shape)
            before = array_of(value) if found_before is None else found_before[place]
            if before is not None:
                copy.assign(before, validate_shape=False)
    return [copies.get(id(value), value) for value in inputs]


__all__ = ["first_bad_member", "has_bounds_within"]
