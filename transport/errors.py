"""Errors between two processes that do not understand each other, by fault, and how errors travel.

* `LocalProtocolError`: this process asked the connection for something that its state does not allow.
* `RemoteProtocolError`: the other side sent what no correct peer sends; the connection is closed.
* `ConnectionLostError`: the link broke, fell silent or was closed while something was in flight.

An error of a handler travels as its canonical code, its message and where it happened, and is raised on
the other side as the same class. Nothing else of it travels: no traceback and no pickled object.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core import errors
from flowengine.core.errors import FailedPreconditionError, InternalError, OpError, UnavailableError


class LocalProtocolError(FailedPreconditionError):
    """This side tried to send what the state of the connection does not allow."""


class RemoteProtocolError(UnavailableError):
    """The other side broke the protocol; its connection is closed and costs nothing any more.

    last_words   bytes that it is told in its own protocol, where that is known and nothing was said before
    """

    def __init__(self, message: str, *, last_words: bytes = b"") -> None:
        super().__init__(message)
        self.last_words = last_words


class ConnectionLostError(UnavailableError):
    """The link broke, or ended while something was in flight; the message says with whom and why."""


#: Canonical code -> the class raised for it here.
_CLASSES: Final[dict[int, type[OpError]]] = {
    cls.error_code: cls for cls in (getattr(errors, name) for name in errors.__all__) if cls is not OpError
}

#: What of an error's location travels beside its message.
_TEXT_FIELDS: Final = ("node_name", "op_type", "device", "frame", "creation_site", "missing_op")

#: Longest text of an error that is sent, in characters, and the longest where the receiver takes only the
#: smallest headers.
_TEXT_MAX: Final = 2000
_BRIEF_TEXT_MAX: Final = 700


def plain(text: object, characters_max: int = _TEXT_MAX) -> str:
    """Text that any receiver can read: of bounded length, and with what is no Unicode spelt out."""
    return str(text)[:characters_max].encode(errors="backslashreplace").decode()


def error_to_wire(error: BaseException, *, brief: bool = False) -> tuple[int, str, dict[str, Any]]:
    """(code, message, details) of an error; anything but an OpError becomes InternalError."""
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
    """The error that these fields describe; an unknown code is UnknownError, unknown details are left out."""
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
