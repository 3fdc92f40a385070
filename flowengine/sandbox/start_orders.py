"""The orders that a process in a box is started with, and its word that it has locked itself in.

Both are a line of JSON on the pair of sockets, before the wire protocol begins there. The process trusts its
orders; what it says is read as a stranger's text.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

#: What either side may take to shake hands: on a busy machine more than a stranger on a network is given.
HANDSHAKE_SECONDS: Final = 30.0
#: The longest word of a process that has locked itself in.
WORD_BYTES_MAX: Final = 4096
#: The exit code of a process that was refused memory where it could not go on without.
NO_MEMORY: Final = 12
#: The longest orders: a list of paths, modules and settings.
_ORDERS_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BoxOrders:
    """The orders for a process in a box.

    parent         the process that started it, and whose end is its end
    packages       where programs lie: this package's folder, and those of `sys.path` that have modules
    modules        the folders in which Python looks for modules
    settings       fields of `Config` that differ from the defaults
    segments       [descriptor, bytes] of the memory that the host writes, and of what it reads; or none
    warms          whether all kernels and the libraries behind them are brought in before it is measured
    idle_bytes     what is kept of their written pages that hold nothing, in each
    others         as in `Sandbox`
    """

    parent: int
    packages: list[str]
    modules: list[str]
    write_bytes: int
    read: list[str]
    write: list[str]
    require: list[str]
    imports: list[str]
    exec_memory: bool
    settings: dict[str, Any] = field(default_factory=dict)
    segments: list[list[int]] = field(default_factory=list)
    idle_bytes: int = 0
    warms: bool = False

    def to_line(self) -> bytes:
        """The orders as they are sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def receive(cls, channel: socket.socket) -> BoxOrders:
        """Wait for the orders. Raises EOFError where the other end is gone."""
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = channel.recv(_ORDERS_BYTES_MAX)  # nothing follows before the answer
            if not piece or len(line) > _ORDERS_BYTES_MAX:
                raise EOFError
            line += piece
        return cls(**json.loads(line))


def said(levels: Mapping[str, str], error: str = "") -> bytes:
    """A process's word: what its box is made of, or why there is none."""
    return json.dumps({"levels": dict(levels), "error": error[:1000]}).encode()[: WORD_BYTES_MAX - 1] + b"\n"


__all__ = ["HANDSHAKE_SECONDS", "NO_MEMORY", "WORD_BYTES_MAX", "BoxOrders", "said"]
