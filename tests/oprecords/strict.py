"""Samples of records on arrays as strict as CuPy's, beside the same on NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import as_dtype
from flowengine.kernels.common.checks import gathered
from flowengine.kernels.context import KernelContext
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import Kernel
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.testing.cupy_names import DTYPES
from flowengine.testing.strict_arrays import StrictArray, StrictModule
from tests.oprecords.record import TOLERANCE, BadSample, Built, OpRecord, Sample, wanted_attrs

#: A device type that nobody has written kernels for: what it finds are those for any device.
STRICT = "STRICT"


def is_of_numbers(record: OpRecord) -> bool:
    """Whether inputs and outputs are tensors of numbers: no strings, references, resources, variants."""
    args = [*record.definition.inputs, *record.definition.outputs]
    others = ("resource", "variant", "string")
    return not any(arg.is_ref or (arg.type is not None and arg.type.name in others) for arg in args)


def held_types(record: OpRecord) -> Iterator[dict[str, str]]:
    """The types to try of which a device's arrays can be."""
    for types in record.combinations():
        if all(as_dtype(name).as_numpy_dtype.name in DTYPES for name in types.values()):
            yield types


class StrictRun:
    """One sample of a record on strict arrays: what came out, and what was found.

    outputs    as NumPy arrays; none where a device cannot hold the inputs
    findings   what does not hold of a kernel for any device
    """

    def __init__(
        self,
        record: OpRecord,
        each: Sample | BadSample,
        types: Mapping[str, str],
        xp: StrictModule | None = None,
        form: str = "known",
    ) -> None:
        """`xp` is the array module, with memory of its own; a new one unless given. `form`: see `Built`."""
        self._xp = StrictModule() if xp is None else xp
        self.built = Built(fe.Graph(), record, each, types, form, "node")
        self.record = record
        self.findings: list[str] = []
        self.outputs: tuple[Any, ...] = ()
        node = self.built.node
        found = [k for k in kernel_registry("numpy").candidates(node.op, STRICT) if k.serves(node)]
        if not found:
            self.findings.append("no kernel for any device")
            return
        if all(
            _is_held(v) for value in self._inputs() for v in (value if isinstance(value, tuple) else (value,))
        ):
            self._run(found[0])

    def _inputs(self) -> list[Any]:
        return [tuple(v) if isinstance(v, list) else v for v in self.built.inputs]

    def _run(self, kernel: Kernel) -> None:
        xp = self._xp
        definition = self.record.definition
        moved = [
            value if arg.name in kernel.host else _map(xp.moved_in, value)
            for arg, value in zip(definition.inputs, self._inputs(), strict=True)
        ]
        with np.errstate(all="ignore"), gathered() as checks:
            result = bound(kernel, self.built.node, xp)(*moved)
        reads = list(xp.reads)
        for check in checks:
            if xp.moved_out(check.wrong):
                raise check.error()
        self.findings += [f"read by the host: {read}" for read in reads]
        values = result if isinstance(result, tuple) else (result,)
        stay = [arg.name for arg in definition.outputs for _ in range(_count(arg, self.built.node))]
        for name, value in zip(stay, values, strict=True):
            if not isinstance(value, StrictArray) and name not in kernel.host:
                self.findings.append(f"{name} is {type(value).__name__} of the host")
        self.outputs = tuple(to_array(xp.moved_out(value)) for value in values)

    def near(self) -> tuple[Any, ...]:
        """The outputs of the kernel on a CPU."""
        node = self.built.node
        kernel = kernel_registry("numpy").find(node)
        with np.errstate(all="ignore"):
            result = bound(kernel, node, np)(*self._inputs())
        return tuple(map(to_array, result)) if isinstance(result, tuple) else (to_array(result),)


def findings(
    record: OpRecord, new_module: Callable[[], StrictModule] = StrictModule, types_max: int | None = None
) -> list[str]:
    """Return a sentence for each finding about a record on strict arrays.

    new_module   makes the array module of each sample
    types_max    so many of its types at most
    """
    found: list[str] = []
    for types in islice(held_types(record), types_max):
        for each in record.samples:
            run = StrictRun(record, each, types, new_module())
            found += run.findings
            if run.findings or not run.outputs:
                continue
            if record.check is not None:
                node = run.built.node
                record.check(list(run.outputs), run.built.inputs, **wanted_attrs(record.check, node))
            if not record.random:
                pairs = zip(run.outputs, run.near(), strict=True)
                found += [different for far, near in pairs if (different := differences(record, far, near))]
    return found


def _is_held(value: Any) -> bool:
    return value.dtype.name in DTYPES


def bound(kernel: Kernel, node: Any, xp: Any) -> Any:
    function = kernel.function
    if isinstance(function, np.ufunc) and xp is not np:
        return getattr(xp, function.__name__)
    call = replace(kernel, xp=xp).bind(node)
    if not kernel.takes_context:
        return call
    resources = ResourceManager()
    context = KernelContext(resources=resources, step_container=StepContainer())
    return lambda *inputs: call(*inputs, ctx=context)


def _map(function: Any, value: Any) -> Any:
    return tuple(map(function, value)) if isinstance(value, tuple) else function(value)


def _count(arg: Any, node: Any) -> int:
    if arg.number_attr is not None:
        return int(node.attrs[arg.number_attr])
    return len(node.attrs[arg.type_list_attr]) if arg.type_list_attr is not None else 1


def differences(record: OpRecord, far: Any, near: Any) -> str:
    """How a value differs from the CPU's; empty if it does not."""
    if far.dtype != near.dtype or far.shape != near.shape:
        return f"{far.dtype}{far.shape} instead of {near.dtype}{near.shape}"
    tolerance = TOLERANCE.get(near.dtype.name, 0.0) * record.loose
    if far.dtype.kind not in "fc" or not tolerance:
        return (
            "" if np.array_equal(far, near, equal_nan=far.dtype.kind in "fc") else f"{far} instead of {near}"
        )
    if np.allclose(far, near, rtol=tolerance, atol=tolerance, equal_nan=True):
        return ""
    return f"{far} instead of {near}"
