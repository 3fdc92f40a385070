"""The array module of a simulated GPU: each call is a piece of work, done late in the device's own memory.

An array has its values twice: at once in host memory, where shapes and types are learnt from, as a GPU's host
knows them without a look at values; and late in the device's memory, which alone is read when values leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from flowengine.core.arrays import Array
from flowengine.testing.strict_arrays import StrictModule

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True


class LateCall(NamedTuple):
    """A function of NumPy's arrays with what it is given.

    writes   those among the arrays that it changes
    """

    function: Callable[..., Any]
    values: tuple[Any, ...]
    named: dict[str, Any]
    writes: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the call in findings and failures."""
        return getattr(self.function, "__name__", str(self.function))

    @property
    def arrays(self) -> list[Array]:
        """All arrays that it is given."""
        return [*arrays_in(list(self.values)), *arrays_in(list(self.named.values()))]

    def result(self) -> Any:
        """Return the result of the call, scalars as arrays."""
        return as_arrays(self.function(*self.values, **self.named))

    def replaced(self, new: Callable[[Array], Array]) -> LateCall:
        """The same of other arrays."""
        named = {key: replaced(value, new) for key, value in self.named.items()}
        return LateCall(self.function, replaced(self.values, new), named, ())


class CallRunner(Protocol):
    """The device to which the module hands its calls."""

    def call(self, call: LateCall) -> Any:
        """Make a call now for its shapes, and launch it; NumPy's result, in arrays of known memory."""

    def copy_in(self, value: Any) -> Any:
        """A value of host memory in the device's."""

    def copy_out(self, value: Any) -> Any:
        """A value of the device's memory in the host's."""

    def note_read(self, what: str) -> None:
        """Somebody on the host looks at a value; raises FailedPreconditionError inside a step."""

    def fetched(self, data: Array) -> Array:
        """The values of an array out of the device's memory, when they are there."""


class GpuModule(StrictModule):
    """`xp` of a simulated GPU."""

    __name__ = "simulated_gpu"
    _own_files = StrictModule._own_files | {__file__}

    def __init__(self, runner: CallRunner) -> None:
        self._runner = runner
        super().__init__()

    def run(
        self, function: Callable[..., Any], *values: Any, writes: tuple[Any, ...] = (), **named: Any
    ) -> Any:
        return self.wrapped(self._runner.call(LateCall(function, values, named, writes)))

    def moved_in(self, value: Any) -> Any:
        """A value of host memory in the device's; what is no array of numbers passes as it is."""
        return self._runner.copy_in(value)

    def moved_out(self, value: Any) -> Any:
        """A value in host memory, rank 0 as a scalar, when it is there; not counted as a look."""
        return self._runner.copy_out(value)

    def note_read(self, what: str) -> None:
        super().note_read(what)
        self._runner.note_read(self.reads[-1])

    def fetched(self, data: Array) -> Array:
        return self._runner.fetched(data)


def offset_in(root: Array, array: Array) -> int:
    """Return the offset of an array, in bytes, from the beginning of the one that owns its memory."""
    there: int = array.__array_interface__["data"][0]
    here: int = root.__array_interface__["data"][0]
    return there - here


def as_arrays(value: Any) -> Any:
    """A result of NumPy with its scalars as arrays."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, tuple | list):
        parts = map(as_arrays, value)
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays in a value, depth first."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from arrays_in(part)


def replaced(value: Any, new: Callable[[Array], Array]) -> Any:
    """A value with other arrays in the place of its arrays."""
    if isinstance(value, np.ndarray):
        return new(value)
    if isinstance(value, tuple | list):
        parts = [replaced(part, new) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


__all__ = ["CallRunner", "GpuModule", "LateCall", "arrays_in", "as_arrays", "offset_in", "replaced"]
