"""The prefix of every frame, and the protocols of peers whose bytes begin otherwise.

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

#: The first bytes of TLS; a record that refuses, for "no version in common".
TLS_HANDSHAKE: Final = b"\x16"
TLS_REFUSAL: Final = bytes((0x15, 3, 3, 0, 2, 2, 70))

#: Stream numbers count up from 1 and start again after this.
STREAM_MAX: Final = 0xFFFF_FFFF


def message_prefix(header_bytes: int, stream: int, payload_bytes: int) -> bytes:
    """Return the prefix of a message."""
    return PREFIX.pack(MAGIC, FORMAT, MESSAGE, header_bytes, stream, payload_bytes)


def data_prefix(stream: int, payload_bytes: int) -> bytes:
    """Return the prefix of a chunk of a stream."""
    return PREFIX.pack(MAGIC, FORMAT, DATA, 0, stream, payload_bytes)


def abandon_prefix(stream: int) -> bytes:
    """Return the frame that says that the rest of a stream will not come."""
    return PREFIX.pack(MAGIC, FORMAT, ABANDON, 0, stream, 0)


def after_stream(number: int) -> int:
    """Return the number of the stream that follows this one."""
    return 1 if number == STREAM_MAX else number + 1


def what_speaks(prefix: bytes) -> str:
    """Describe the other end by a prefix that is not ours."""
    if prefix[:2] == MAGIC:
        return f"the other side frames its bytes in format {prefix[2]}, here it is {FORMAT}"
    if is_tls(prefix):
        return (
            "the other side speaks TLS and this end does not: a session's target begins with flow+tls://, "
            "a cluster's file has a line tls"
        )
    if prefix[:4] in (b"GET ", b"POST", b"HEAD", b"PRI ", b"HTTP"):
        return "the other side speaks HTTP: this address is FlowEngine's own protocol"
    return f"the other side does not speak FlowEngine's protocol: it began with {prefix[:8]!r}"


def is_tls(beginning: bytes) -> bool:
    """Return whether a record of TLS begins so."""
    return beginning[:2] in (b"\x15\x03", b"\x16\x03")


def answer_to(prefix: bytes) -> bytes:
    """Return the reply, in the peer's own protocol, that it dialled the wrong port; b"" for none."""
    return TLS_REFUSAL if prefix[:1] == TLS_HANDSHAKE else b""


__all__ = [
    "TLS_HANDSHAKE",
    "TLS_REFUSAL",
    "abandon_prefix",
    "after_stream",
    "answer_to",
    "data_prefix",
    "is_tls",
    "message_prefix",
    "what_speaks",
]
