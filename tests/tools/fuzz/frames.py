"""Bytes from the other side of a connection: wrong frames and headers, damaged conversations."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.limits import Limits
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.prefix import PREFIX, abandon_prefix, data_prefix, message_prefix
from tests.tools.links import ConnectionLink, output

LIMITS = Limits(
    message_bytes_max=1 << 20,
    incoming_bytes_max=2 << 20,
    request_bytes_max=2 << 20,
    credit_bytes=1 << 20,
    calls_max=16,
    streams_max=4,
    pulls_max=16,
)


def frame(*parts: Any, payload: bytes = b"") -> bytes:
    header = m.write_header(*parts)
    return message_prefix(len(header), 0, len(payload)) + header + payload


def conversation(chance: random.Random) -> list[bytes]:
    """Frames that a right peer might send, in order."""
    link = ConnectionLink(limits=LIMITS)
    link.open()
    sender = link.dialler
    frames: list[bytes] = []
    for number in range(chance.randint(1, 5)):
        size = chance.choice([0, 3, 500, 70_000, 200_000])
        payload = Payload([np.zeros(size, np.uint8), np.array([b"ab", b""], object)][: chance.randint(1, 2)])
        key = RendezvousKey(number, "/job:a", 1, f"edge{number}", "/job:b", (("f", number),))
        kind = chance.randrange(7)
        if kind == 6:
            sender.deliveries.deliver(
                key[1:5], number, np.zeros(chance.choice([0, 10, 1000]), np.int16), False
            )
            sender.deliveries.deliver(key[1:5], 99, np.float32(number), number % 2 == 0)
        elif kind == 0:
            sender.calls.request("method", {"a": [1, "b", b"c"]}, payload)
        elif kind == 1:
            payload = Payload(payload_tensors(chance))
            if sender.tensors.may_push(payload):
                sender.tensors.push(key, payload, False)
        elif kind == 2:
            sender.tensors.announce(key, size)
        elif kind == 3:
            sender.tensors.pull(key)
        elif kind == 4:
            sender.tensors.end_step(number, ValueError("x"), notify=True)
        else:
            sender.calls.cancel(sender.calls.request("method", None, Payload()))
        frames.append(output(sender))
    return frames


def payload_tensors(chance: random.Random) -> list[Any]:
    return [np.zeros(chance.choice([0, 10, 100_000]), np.float32)]


WORDS: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    1 << 63,
    1.5,
    "",
    "x" * 300,
    b"",
    b"n" * 32,
    [],
    {},
    [[1, [2]]],
    {"a": 1},
]


def nonsense(chance: random.Random) -> bytes:
    """One input: random bytes, wrong frames, wrong headers, or a right conversation that was damaged."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.randbytes(chance.randint(1, 200))
    if kind == 1:
        sizes = [0, 1, 20, 5000, 1 << 16, 1 << 20, 1 << 32, (1 << 64) - 1]
        prefix = PREFIX.pack(
            b"FE", chance.choice([1, 1, 1, 0, 2]), chance.randint(0, 4), chance.choice(sizes) & 0xFFFFFFFF,
            chance.randint(0, 3), chance.choice(sizes),
        )  # fmt: skip
        return prefix + chance.randbytes(chance.randint(0, 100))
    if kind == 2:
        header = chance.randbytes(chance.randint(1, 60))
        return message_prefix(len(header), 0, 0) + header
    if kind == 3:
        number = chance.choice([*m.SHAPES, 0, 99])
        return frame(number, *(chance.choice(WORDS) for _ in range(chance.randint(0, 4))))
    frames = conversation(chance)
    if kind == 4:
        chance.shuffle(frames)
        return b"".join(frames + frames)
    if kind == 5:
        position = chance.randrange(len(frames))
        frames.insert(position, chance.choice([data_prefix(1, 10), abandon_prefix(1), *frames]))
        return b"".join(frames)
    data = bytearray(b"".join(frames))
    if kind == 6:
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(min(len(data), 400))] = chance.randrange(256)
        return bytes(data)
    return bytes(data[: chance.randrange(len(data))])
