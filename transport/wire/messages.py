"""The messages of the protocol: their numbers, their fields, and the allowed values of each field.

A header is one msgpack array: [number, field, ..., tensors], where `tensors` describes the payload (see
`tensors`); messages without a payload leave it out. Every message enters through `read_header`, which checks
the number of fields and the type of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgpack

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import NAME_BYTES_MAX

HELLO: Final = 1
CHALLENGE: Final = 2
PROOF: Final = 3
WELCOME: Final = 4
REFUSED: Final = 5
PING: Final = 8
PONG: Final = 9
GOODBYE: Final = 10
REQUEST: Final = 16
REPLY: Final = 17
FAILURE: Final = 18
CANCEL: Final = 19
PUSH: Final = 24
ANNOUNCE: Final = 25
PULL: Final = 26
CREDIT: Final = 27
OVERFLOW: Final = 28
STEP_FAILED: Final = 29
ROUTE: Final = 30
DELIVER: Final = 31

#: The messages before a connection is open.
HANDSHAKE: Final = (HELLO, CHALLENGE, PROOF, WELCOME, REFUSED)

#: Random bytes that each side contributes to the proofs, and the length of a proof.
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32

#: Tensors of one message.
TENSORS_MAX: Final = 16_384

#: Depth of loops around one edge.
PATH_MAX: Final = 64

#: Longest name of an edge, device or frame in a key, in characters.
KEY_TEXT_MAX: Final = 4096

_TEXT_MAX: Final = 16_384


def _uint(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _positive(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 63


def _name(value: Any) -> bool:
    return type(value) is str and len(value) <= NAME_BYTES_MAX


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= _TEXT_MAX


def _bool(value: Any) -> bool:
    return type(value) is bool


def _map(value: Any) -> bool:
    return type(value) is dict


def _anything(value: Any) -> bool:
    return True


def _version(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 16


def _nonce(value: Any) -> bool:
    return type(value) is bytes and len(value) == NONCE_BYTES


def _proof(value: Any) -> bool:
    return type(value) is bytes and len(value) in (0, PROOF_BYTES)


def _identity(value: Any) -> bool:
    return type(value) is bytes and len(value) <= 3072


def _key(value: Any) -> bool:
    """[step, source device, source incarnation, edge, target device, [[frame, iteration], ...]]"""
    if type(value) is not list or len(value) != 6:
        return False
    step, source, incarnation, edge, target, path = value
    return (
        _uint(step)
        and _uint(incarnation)
        and _key_text(source)
        and _key_text(edge)
        and _key_text(target)
        and _path(path)
    )


def _key_text(value: Any) -> bool:
    return type(value) is str and len(value) <= KEY_TEXT_MAX


def _path(value: Any) -> bool:
    """[[frame, iteration], ...]"""
    return (
        type(value) is list
        and len(value) <= PATH_MAX
        and all(
            type(part) is list and len(part) == 2 and _key_text(part[0]) and _uint(part[1]) for part in value
        )
    )


Check = Callable[[Any], bool]


class Shape(NamedTuple):
    """One message type: its name, its fields with the check of each, and whether tensors may follow."""

    name: str
    fields: tuple[tuple[str, Check], ...]
    has_tensors: bool = False


#: number -> its message type
SHAPES: Final[dict[int, Shape]] = {
    HELLO: Shape("HELLO", (("lowest version", _version), ("highest version", _version), ("nonce", _nonce))),
    CHALLENGE: Shape("CHALLENGE", (("nonce", _nonce),)),
    PROOF: Shape("PROOF", (("identity", _identity), ("proof", _proof))),
    WELCOME: Shape("WELCOME", (("version", _version), ("identity", _identity), ("proof", _proof))),
    REFUSED: Shape("REFUSED", (("reason", _text), ("proof", _proof))),
    PING: Shape("PING", (("number", _uint),)),
    PONG: Shape("PONG", (("number", _uint),)),
    GOODBYE: Shape("GOODBYE", (("reason", _text),)),
    REQUEST: Shape("REQUEST", (("call", _positive), ("method", _name), ("arguments", _anything)), True),
    REPLY: Shape("REPLY", (("call", _positive), ("result", _anything)), True),
    FAILURE: Shape("FAILURE", (("call", _positive), ("code", _uint), ("message", _text), ("details", _map))),
    CANCEL: Shape("CANCEL", (("call", _positive),)),
    PUSH: Shape("PUSH", (("key", _key), ("dead", _bool), ("pulled", _bool)), True),
    ANNOUNCE: Shape("ANNOUNCE", (("key", _key), ("bytes", _uint))),
    PULL: Shape("PULL", (("key", _key),)),
    CREDIT: Shape("CREDIT", (("bytes", _positive),)),
    OVERFLOW: Shape("OVERFLOW", ()),
    STEP_FAILED: Shape(
        "STEP_FAILED", (("step", _uint), ("code", _uint), ("message", _text), ("details", _map))
    ),
    ROUTE: Shape(
        "ROUTE",
        (
            ("route", _positive),
            ("source device", _key_text),
            ("source incarnation", _uint),
            ("edge", _key_text),
            ("target device", _key_text),
        ),
    ),
    DELIVER: Shape("DELIVER", (("route", _positive), ("step", _uint), ("dead", _bool)), True),
}


def name_of(number: int) -> str:
    shape = SHAPES.get(number)
    return shape.name if shape is not None else f"message {number}"


_packer = msgpack.Packer(use_bin_type=True, autoreset=True)


def write_header(*fields: Any) -> bytes:
    """Write [number, field, ..., tensors] as msgpack. Raises TypeError or ValueError for other values."""
    packed: bytes = _packer.pack(fields)
    return packed


def unpack_header(header: memoryview) -> list[Any]:
    """Return [number, field, ...] of a header, otherwise unchecked; RemoteProtocolError if it is not one."""
    try:
        parts = msgpack.unpackb(header, raw=False, use_list=True, strict_map_key=True, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(
            f"a header of {len(header)} bytes is not msgpack: {type(error).__name__} {error}"
        ) from None
    if type(parts) is not list or not parts or type(parts[0]) is not int:
        raise RemoteProtocolError("a header is not an array that begins with the message's number")
    return parts


def read_header(header: memoryview) -> tuple[int, list[Any], list[Any]]:
    """Return (number, fields, descriptions of tensors) of a header; RemoteProtocolError if it is not one."""
    return check_header(unpack_header(header))


def check_header(parts: list[Any]) -> tuple[int, list[Any], list[Any]]:
    """Check the result of `unpack_header` as `read_header` does."""
    number = parts[0]
    shape = SHAPES.get(number)
    if shape is None:
        raise RemoteProtocolError(f"there is no message {number}")
    fields = parts[1:]
    tensors: list[Any] = []
    if shape.has_tensors and len(fields) == len(shape.fields) + 1:
        tensors = fields.pop()
        if type(tensors) is not list or len(tensors) > TENSORS_MAX:
            raise RemoteProtocolError(f"{shape.name}: the last field is not a list of tensors")
    if len(fields) != len(shape.fields):
        raise RemoteProtocolError(f"{shape.name} has {len(shape.fields)} fields, {len(fields)} came")
    for value, (field, check) in zip(fields, shape.fields, strict=True):
        if not check(value):
            raise RemoteProtocolError(f"{shape.name}: field '{field}' is not what it should be")
    return number, fields, tensors


def key_to_wire(key: RendezvousKey) -> list[Any]:
    return [*key[:5], [list(part) for part in key.path]]


def key_from_wire(fields: list[Any]) -> RendezvousKey:
    """Return the key in a field that has passed its check."""
    step, source, incarnation, edge, target, path = fields
    return RendezvousKey(step, source, incarnation, edge, target, tuple((f, i) for f, i in path))


__all__ = [
    "SHAPES",
    "check_header",
    "key_from_wire",
    "key_to_wire",
    "name_of",
    "read_header",
    "unpack_header",
    "write_header",
]
