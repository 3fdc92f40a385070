"""Protocol buffers from bytes."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from flowengine.core.errors import InvalidArgumentError

M = TypeVar("M", bound=Message)


def parsed(data: bytes | memoryview, message: M) -> M:
    """The message, with what bytes hold of it; InvalidArgumentError, which counts them, for others."""
    try:
        message.ParseFromString(bytes(data))
    except DecodeError as error:
        name = message.DESCRIPTOR.name
        raise InvalidArgumentError(
            f"these {len(data)} bytes are no {name}, or they are cut off ({error})"
        ) from None
    return message


__all__ = ["parsed"]
