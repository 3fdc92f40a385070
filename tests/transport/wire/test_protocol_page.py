"""The page on the protocol says what the code does: its bytes are read, its tables compared."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.limits import CHUNK_BYTES_MAX, HANDSHAKE_HEADER_BYTES_MAX, INLINE_BYTES_MAX, Limits
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.prefix import ABANDON, DATA, MESSAGE, PREFIX, data_prefix
from flowengine.transport.wire.states import OPEN_MESSAGES, RECEIVING, SENDING, Side, State
from tests.tools.links import ConnectionLink, feed, output


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "protocol.md").read_text()


def dumps(page: str) -> list[bytes]:
    """The bytes of each hexadecimal example."""
    found = []
    for block in re.findall(r"```hexdump\n(.*?)```", page, re.DOTALL):
        data = bytearray()
        for line in block.splitlines():
            place, _, digits = line.partition("  ")
            assert int(place, 16) == len(data)
            data += bytes.fromhex(digits)
        found.append(bytes(data))
    return found


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    part = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_call_is_read_and_written(page: str) -> None:
    data = dumps(page)[0]
    link = ConnectionLink()
    link.open()
    feed(link.listener, data)
    (event,) = link.listener.take_events()
    assert isinstance(event, e.CallArrival)
    assert (event.call, event.method, event.arguments) == (1, "scale", {"by": 2})
    tensor = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert event.tensors[0].dtype == np.float32
    assert np.array_equal(event.tensors[0], tensor)
    link.dialler.calls.request("scale", {"by": 2}, Payload([tensor]))
    assert output(link.dialler) == data


def test_the_pushed_strings_are_read_and_written(page: str) -> None:
    data = dumps(page)[1]
    link = ConnectionLink()
    link.open()
    feed(link.listener, data)
    (event,) = link.listener.take_events()
    assert isinstance(event, e.TensorArrival)
    key = RendezvousKey(
        7,
        "/job:ps/task:0/device:CPU:0",
        0x1234,
        "edge_3_w",
        "/job:worker/task:1/device:CPU:0",
        (("loop", 2),),
    )
    assert event.key == key
    assert event.value.tolist() == [b"ab", b"xyz"]
    assert event.cost == 21 + 512
    link.dialler.tensors.push(key, Payload([event.value]), False)
    assert output(link.dialler) == data


def test_the_stream_is_read(page: str) -> None:
    data = dumps(page)[2]
    link = ConnectionLink()
    link.open()
    call = link.dialler.calls.request("fetch", None, Payload())
    link.settle()
    link.events()
    feed(link.dialler, data + b"x" * 65_536 + data_prefix(1, 34_464) + b"y" * 34_464)
    (event,) = link.dialler.take_events()
    assert isinstance(event, e.CallAnswer)
    assert event.call is call
    assert bytes(event.tensors[0]) == b"x" * 65_536 + b"y" * 34_464


def test_the_table_of_messages(page: str) -> None:
    told = {
        int(number): (name, [field for field in fields.split(", ") if field], tensors == "yes")
        for number, name, fields, tensors in rows(page, "Messages")
    }
    known = {
        number: (shape.name, [name for name, _ in shape.fields], shape.has_tensors)
        for number, shape in m.SHAPES.items()
    }
    assert told == known


def test_the_table_of_states(page: str) -> None:
    received: dict[Side, dict[tuple[State, int], State]] = {side: {} for side in Side}
    sent: dict[Side, dict[tuple[State, int], State]] = {side: {} for side in Side}
    numbers = {shape.name: number for number, shape in m.SHAPES.items()}
    for name, receives, after_receiving, sends, after_sending in rows(page, "Opening"):
        state = State(name.split(" (")[0])
        sides = [side for side in Side if f"({side.value})" in name] or list(Side)
        for side in sides:
            if receives:
                received[side][state, numbers[receives]] = State(after_receiving)
            if sends:
                sent[side][state, numbers[sends]] = State(after_sending)
    for side in Side:
        for number in OPEN_MESSAGES:
            received[side][State.OPEN, number] = sent[side][State.OPEN, number] = State.OPEN
            received[side][State.LEAVING, number] = State.LEAVING
    assert received == RECEIVING
    assert sent == SENDING


def test_the_numbers_in_the_text(page: str) -> None:
    limits = Limits()
    for text in (
        f"a prefix of {PREFIX.size} bytes",
        f"payload has {INLINE_BYTES_MAX:,} bytes or less",
        f"at most {CHUNK_BYTES_MAX:,} in a frame",
        f"headers are at most {HANDSHAKE_HEADER_BYTES_MAX} bytes",
        f"over within {limits.handshake_seconds:.0f} seconds",
        f"nothing for {limits.heartbeat_seconds:.0f} seconds",
        f"after {limits.silence_seconds:.0f} seconds of",
        f"within {limits.frame_seconds:.0f} seconds",
        f"| 3 | kind | {MESSAGE} | {DATA} | {ABANDON} |",
    ):
        assert text in " ".join(page.split()) or text in page, text
