"""The errors that reach a user: one class per canonical code, under TensorFlow's names.

The class says whose fault it is, the message says what to do:

* the caller's graph or values: `InvalidArgumentError`, `OutOfRangeError`, `NotFoundError`, ...;
* the order of the caller's steps: `FailedPreconditionError`, `AlreadyExistsError`;
* time and other parties: `CancelledError`, `DeadlineExceededError`, `AbortedError`, `UnavailableError`;
* the machine: `ResourceExhaustedError`, `DataLossError`;
* this library: `InternalError` (a bug of ours) and `UnimplementedError` (not written yet).

A kernel raises one of these with its message only; the executor adds where it happened through
`OpError.locate`, so that no kernel carries names about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from flowengine.core.public_names.missing import public_module


class OpError(Exception):
    """The base of every error of a graph, a plan or a step.

    message       what went wrong, with the offending values, without the location
    error_code    the canonical code, as in `google.rpc.Code`
    """

    error_code: ClassVar[int] = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        #: Name of the node that failed, once known.
        self.node_name: str | None = None
        #: Its op type.
        self.op_type: str | None = None
        #: The device that it ran on.
        self.device: str | None = None
        #: (dtype name, shape) of each input, in order, where the step still held them.
        self.input_shapes: tuple[str, ...] | None = None
        #: Frame and iteration, as text, for a node inside a loop.
        self.frame: str | None = None
        #: The line of user code that built the node: "file:line in function".
        self.creation_site: str | None = None
        #: The op type that has no definition or no kernel, if that is what failed.
        self.missing_op: str | None = None
        #: Whether the text names the device: not where a session has only one.
        self.shows_device = True

    def locate(
        self,
        *,
        node_name: str,
        op_type: str,
        device: str = "",
        input_shapes: Sequence[str] | None = None,
        frame: str | None = None,
        creation_site: str | None = None,
    ) -> OpError:
        """Add where it happened, unless an inner caller already did; returns self."""
        if self.node_name is None:
            self.node_name = node_name
            self.op_type = op_type
            self.device = device or None
            self.input_shapes = None if input_shapes is None else tuple(input_shapes)
            self.frame = frame
            self.creation_site = creation_site
        return self

    def __str__(self) -> str:
        if self.node_name is None:
            return self.message
        where = f"{self.op_type} '{self.node_name}'"
        if self.frame:
            where += f" in {self.frame}"
        if self.device and self.shows_device:
            where += f" on {self.device}"
        text = f"{where}: {self.message}"
        if self.input_shapes:
            text += f" [inputs: {', '.join(self.input_shapes)}]"
        if self.creation_site:
            text += f" (created at {self.creation_site})"
        return text


class CancelledError(OpError):
    """The step was cancelled: by `Session.close`, or because a queue was closed with its waiters."""

    error_code = 1


class UnknownError(OpError):
    """Something outside the engine failed without saying how."""

    error_code = 2


class InvalidArgumentError(OpError):
    """The graph, a feed or a value is wrong. `faults` lists every one found while importing."""

    error_code = 3

    def __init__(self, message: str, *, faults: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class DeadlineExceededError(OpError):
    """A timeout that the caller set ran out."""

    error_code = 4


class NotFoundError(OpError):
    """A name (node, resource, file, op type) that does not exist."""

    error_code = 5


class AlreadyExistsError(OpError):
    """A name that may be made once was made again."""

    error_code = 6


class PermissionDeniedError(OpError):
    """The configuration or the operating system forbids it."""

    error_code = 7


class UnauthenticatedError(OpError):
    """A peer did not prove who it is."""

    error_code = 16


class ResourceExhaustedError(OpError):
    """Memory, or a bound that the configuration sets, ran out."""

    error_code = 8


class FailedPreconditionError(OpError):
    """Right call, wrong moment: an uninitialized variable, a session used from another thread."""

    error_code = 9


class AbortedError(OpError):
    """The step was given up because something that it worked with went away."""

    error_code = 10


class OutOfRangeError(OpError):
    """Past the end: a closed and drained queue, a counter at its limit."""

    error_code = 11


class UnimplementedError(OpError):
    """Legal, but not supported here."""

    error_code = 12


class InternalError(OpError):
    """An invariant of the engine does not hold: please report it."""

    error_code = 13


class UnavailableError(OpError):
    """The other side cannot be reached now; trying again may help."""

    error_code = 14


class DataLossError(OpError):
    """Stored bytes are damaged: a checksum, a length or a footer does not fit."""

    error_code = 15


__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
