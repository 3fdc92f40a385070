"""Errors between two processes that do not understand each other, by fault, and their form in messages.

* `LocalProtocolError`: this process asked the connection for something that its state does not allow.
* `RemoteProtocolError`: the other side sent bytes that no correct peer sends; the connection is closed.
* `ConnectionLostError`: the link broke, fell silent or was closed while something was in flight.

An error of a handler is sent as its canonical code, its message and the place where it happened, and is
raised on the other side as the same class. Nothing else of it is sent: no traceback and no pickled object.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core import errors
from flowengine.core.errors import FailedPreconditionError, InternalError, OpError, UnavailableError


class LocalProtocolError(FailedPreconditionError):
    """This side tried to send a message that the state of the connection does not allow."""


class RemoteProtocolError(UnavailableError):
    """The other side broke the protocol; its connection is closed and uses no more resources.

    last_words   a reply in the peer's own protocol, if that is known and nothing was sent before
    """

    def __init__(self, message: str, *, last_words: bytes = b"") -> None:
        super().__init__(message)
        self.last_words = last_words


class ConnectionLostError(UnavailableError):
    """The link broke, or ended while something was in flight; the message names the peer and the reason."""


#: Canonical code -> the class that is raised for it on this side.
_CLASSES: Final[dict[int, type[OpError]]] = {
    cls.error_code: cls for cls in (getattr(errors, name) for name in errors.__all__) if cls is not OpError
}

#: The parts of an error's location that are sent beside its message.
_TEXT_FIELDS: Final = ("node_name", "op_type", "device", "frame", "creation_site", "missing_op")

#: The longest text of an error that is sent, in characters, and the longest if the receiver accepts only the
#: smallest headers.
_TEXT_MAX: Final = 2000
_BRIEF_TEXT_MAX: Final = 700


def plain(text: object, characters_max: int = _TEXT_MAX) -> str:
    """Return a text that any receiver can read: of bounded length, with invalid Unicode escaped."""
    return str(text)[:characters_max].encode(errors="backslashreplace").decode()


def error_to_wire(error: BaseException, *, brief: bool = False) -> tuple[int, str, dict[str, Any]]:
    """Return (code, message, details) of an error; anything but an OpError becomes InternalError."""
    if not isinstance(error, OpError):
        return InternalError.error_code, plain(f"{type(error).__name__}: {error}", _BRIEF_TEXT_MAX), {}
    if brief:
        return error.error_code, plain(error.message, _BRIEF_TEXT_MAX), {}
    details: dict[str, Any] = {}
    for field in _TEXT_FIELDS:
        text = getattr(error, field)
        if text is not None:
            details[field] = plain(text)
    if error.input_shapes is not None:
        details["input_shapes"] = [plain(shape, 200) for shape in error.input_shapes[:32]]
    return error.error_code, plain(error.message), details


def error_from_wire(code: int, message: str, details: dict[str, Any]) -> OpError:
    """Return the error from these fields; an unknown code is UnknownError; unknown details are ignored."""
    error = _CLASSES.get(code, errors.UnknownError)(message)
    for field in _TEXT_FIELDS:
        text = details.get(field)
        if isinstance(text, str):
            setattr(error, field, text)
    shapes = details.get("input_shapes")
    if isinstance(shapes, list):
        error.input_shapes = tuple(str(shape) for shape in shapes)
    return error


__all__ = [
    "ConnectionLostError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "error_from_wire",
    "error_to_wire",
    "plain",
]
