"""What every frame begins with, and who it is that speaks when it begins otherwise.

bytes   field            MESSAGE                        DATA              ABANDON
0-1     b"FE"
2       format           1                              1                 1
3       kind             1                              2                 3
4-7     header bytes     of the msgpack header          0                 0
8-11    stream           0, or of the coming chunks     the stream        the stream
12-19   payload bytes    of all tensors together        of this chunk     0
"""

from __future__ import annotations

import struct
from typing import Final

PREFIX: Final = struct.Struct("<2sBBIIQ")
PREFIX_BYTES: Final = PREFIX.size
MAGIC: Final = b"FE"
FORMAT: Final = 1

MESSAGE: Final = 1
DATA: Final = 2
ABANDON: Final = 3

#: Stream numbers count up from 1 and start again after this.
STREAM_MAX: Final = 0xFFFF_FFFF


def message_prefix(header_bytes: int, stream: int, payload_bytes: int) -> bytes:
    """The prefix of a message."""
    return PREFIX.pack(MAGIC, FORMAT, MESSAGE, header_bytes, stream, payload_bytes)


def data_prefix(stream: int, payload_bytes: int) -> bytes:
    """The prefix of a chunk of a stream."""
    return PREFIX.pack(MAGIC, FORMAT, DATA, 0, stream, payload_bytes)


def abandon_prefix(stream: int) -> bytes:
    """The frame that says that the rest of a stream will not come."""
    return PREFIX.pack(MAGIC, FORMAT, ABANDON, 0, stream, 0)


def after_stream(number: int) -> int:
    """The number of the stream that follows this one."""
    return 1 if number == STREAM_MAX else number + 1


def what_speaks(prefix: bytes) -> str:
    """What is at the other end, by a prefix that is none of ours."""
    if prefix[:2] == MAGIC:
        return f"the other side frames its bytes in format {prefix[2]}, here it is {FORMAT}"
    if prefix[:2] == b"\x16\x03":
        return "the other side speaks TLS and this end does not: use a tls:// address at both ends"
    if prefix[:4] in (b"GET ", b"POST", b"HEAD", b"PRI ", b"HTTP"):
        return "the other side speaks HTTP: this address is FlowEngine's own protocol"
    return f"the other side does not speak FlowEngine's protocol: it began with {prefix[:8]!r}"


__all__ = ["abandon_prefix", "after_stream", "data_prefix", "message_prefix", "what_speaks"]
