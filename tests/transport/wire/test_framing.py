"""Frames: however the bytes are cut, whatever they are."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import CHUNK_BYTES_MAX, INLINE_BYTES_MAX
from flowengine.transport.wire.framing import VIEWS_MAX, FrameReader
from flowengine.transport.wire.placing import place
from flowengine.transport.wire.prefix import PREFIX_BYTES, abandon_prefix, data_prefix, message_prefix

BIG = INLINE_BYTES_MAX + 1000


class Message:
    def __init__(self, header: bytes, room: bytearray) -> None:
        self.header = header
        self.room = room
        self.views = [memoryview(room)[: len(room) // 3], memoryview(room)[len(room) // 3 :]]


class Owner:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.done: list[tuple[bytes, bytes]] = []
        self.abandoned: list[bytes] = []
        #: Times that it was called.
        self.seen = 0

    def message_whole(self, header: memoryview, inline: bytearray | None) -> None:
        self.message_finished(Message(bytes(header), inline if inline is not None else bytearray()))

    def message_started(self, header: memoryview, payload_bytes: int) -> Message:
        self.seen += 1
        return Message(bytes(header), bytearray(payload_bytes))

    def message_finished(self, incoming: Message) -> None:
        self.seen += 1
        self.done.append((incoming.header, bytes(incoming.room)))

    def message_abandoned(self, incoming: Message) -> None:
        self.seen += 1
        self.abandoned.append(incoming.header)


def reader(owner: Owner, **limits: int) -> FrameReader[Message]:
    made = FrameReader(
        owner,
        message_bytes_max=limits.get("message", 10 * BIG),
        incoming_bytes_max=limits.get("incoming", 20 * BIG),
        streams_max=limits.get("streams", 4),
    )
    made.is_trusted = True
    made.header_bytes_max = 10_000
    return made


def take(target: FrameReader[Message], data: bytes | memoryview) -> tuple[int, bool]:
    """Give the reader as much as it has room for; (how much, what it says came of it).

    What it says is checked: of nothing, nothing came, and there was room for more.
    """
    owner, offered = target._owner, target.receive_buffers()
    assert isinstance(owner, Owner)
    before = owner.seen
    count = place(offered, data)
    is_news = target.bytes_received(count, 1.0)
    if not is_news:
        assert owner.seen == before
        assert count < sum(map(len, offered))
    return count, is_news


def feed(target: FrameReader[Message], data: bytes, cuts: list[int]) -> None:
    """The bytes, cut at these places."""
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for start, end in pairwise(places):
        piece = memoryview(data)[start:end]
        while piece:
            piece = piece[take(target, piece)[0] :]


def small(header: bytes, payload: bytes = b"") -> bytes:
    return message_prefix(len(header), 0, len(payload)) + header + payload


def large(header: bytes, payload: bytes, stream: int, chunk: int) -> list[bytes]:
    chunks = [payload[at : at + chunk] for at in range(0, len(payload), chunk)]
    return [
        message_prefix(len(header), stream, len(payload)) + header,
        *(data_prefix(stream, len(each)) + each for each in chunks),
    ]


SCRIPT = [
    small(b"one"),
    small(b"two", b"payload"),
    *large(b"three", bytes(range(256)) * (BIG // 256 + 1), 1, 30_000),
    small(b"x" * 5000, b"y" * INLINE_BYTES_MAX),
    small(b"last"),
]
EXPECTED = [
    (b"one", b""),
    (b"two", b"payload"),
    (b"three", bytes(range(256)) * (BIG // 256 + 1)),
    (b"x" * 5000, b"y" * INLINE_BYTES_MAX),
    (b"last", b""),
]


def test_every_split_of_a_small_conversation() -> None:
    data = small(b"one") + small(b"two", b"payload") + small(b"three")
    for cut in range(len(data) + 1):
        owner = Owner()
        feed(reader(owner), data, [cut])
        assert owner.done == [(b"one", b""), (b"two", b"payload"), (b"three", b"")]


def test_byte_by_byte() -> None:
    data = b"".join([small(b"one"), small(b"two", b"payload"), *large(b"three", b"z" * BIG, 1, 40_000)])
    owner = Owner()
    feed(reader(owner), data, list(range(0, len(data), 1)))
    assert owner.done == [(b"one", b""), (b"two", b"payload"), (b"three", b"z" * BIG)]


@given(st.lists(st.integers(0, 1 << 20), max_size=60))
def test_any_split(cuts: list[int]) -> None:
    owner = Owner()
    target = reader(owner)
    feed(target, b"".join(SCRIPT), cuts)
    assert owner.done == EXPECTED
    assert target.is_between_frames
    assert target.incoming_bytes == 0
    assert target.oldest_progress() is None


@given(st.data())
def test_streams_and_messages_in_any_order(data: st.DataObject) -> None:
    """Streams begin in order; after that their chunks mix with anything."""
    payloads = [bytes([number]) * (BIG + number) for number in range(1, 4)]
    queues = [
        large(b"stream %d" % number, payload, number, 50_000) for number, payload in enumerate(payloads, 1)
    ]
    queues.append([small(b"small %d" % number, b"p" * number) for number in range(5)])
    sent: list[bytes] = []
    begun = 0
    while any(queues):
        ready = [index for index, queue in enumerate(queues) if queue and (index == 3 or index <= begun)]
        index = data.draw(st.sampled_from(ready))
        begun += index == begun and index < 3
        sent.append(queues[index].pop(0))
    owner = Owner()
    feed(reader(owner), b"".join(sent), data.draw(st.lists(st.integers(0, 1 << 20), max_size=20)))
    assert sorted(owner.done) == sorted(
        [(b"stream %d" % n, payload) for n, payload in enumerate(payloads, 1)]
        + [(b"small %d" % n, b"p" * n) for n in range(5)]
    )


def test_an_abandoned_stream_gives_its_room_back() -> None:
    head, first, *_ = large(b"gone", b"z" * BIG, 1, 30_000)
    owner = Owner()
    target = reader(owner)
    feed(target, head + first, [])
    assert target.incoming_bytes == BIG
    feed(target, abandon_prefix(1) + small(b"next"), [])
    assert owner.abandoned == [b"gone"]
    assert owner.done == [(b"next", b"")]
    assert target.incoming_bytes == 0


def raw(magic: bytes, format_: int, kind: int, header: int, stream: int, payload: int) -> bytes:
    return struct.pack("<2sBBIIQ", magic, format_, kind, header, stream, payload)


HEAD = large(b"h", b"z" * BIG, 1, BIG)[0]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 20, "speaks TLS"),
        (b"\0" * 20, "does not speak FlowEngine's protocol"),
        (raw(b"FE", 2, 1, 1, 0, 0), "format 2, here it is 1"),
        (raw(b"FE", 1, 9, 1, 0, 0), "no frame of kind 9"),
        (raw(b"FE", 1, 1, 0, 0, 0), "a header of 0 bytes"),
        (raw(b"FE", 1, 1, 10_001, 0, 0), "a header of 10001 bytes"),
        (raw(b"FE", 1, 1, 0xFFFFFFFF, 0, 0), "10000 are allowed"),
        (raw(b"FE", 1, 1, 1, 0, 1 << 63), "a message of 9223372036854775808 bytes"),
        (raw(b"FE", 1, 1, 1, 1, 0), "stream 1 was opened for 0 bytes"),
        (raw(b"FE", 1, 1, 1, 0, BIG), "stream 0 was opened where 1 is next"),
        (raw(b"FE", 1, 1, 1, 2, BIG), "stream 2 was opened where 1 is next"),
        (raw(b"FE", 1, 2, 0, 1, 1), "stream 1 came, which is not open"),
        (HEAD + raw(b"FE", 1, 2, 1, 1, 1), "a chunk of 1 bytes"),
        (HEAD + raw(b"FE", 1, 2, 0, 1, 0), "a chunk of 0 bytes"),
        (HEAD + raw(b"FE", 1, 2, 0, 1, BIG + 1), "lacks"),
        (HEAD + raw(b"FE", 1, 2, 0, 1, CHUNK_BYTES_MAX + 1), "lacks"),
        (HEAD + raw(b"FE", 1, 3, 0, 2, 0), "stream 2 was abandoned"),
        (HEAD + raw(b"FE", 1, 3, 0, 1, 5), "stream 1 was abandoned"),
        (HEAD + HEAD, "stream 1 was opened where 2 is next"),
    ],
)  # fmt: skip
def test_frames_that_no_peer_sends(data: bytes, says: str) -> None:
    target = reader(Owner())
    with pytest.raises(RemoteProtocolError, match=says):
        feed(target, data, [])
    assert target.receive_buffers() == []
    assert target.incoming_bytes == 0


def test_bounds_on_streams_and_bytes() -> None:
    heads = b"".join(large(b"h", b"z" * BIG, number, BIG)[0] for number in range(1, 6))
    with pytest.raises(RemoteProtocolError, match="more than 4 streams"):
        feed(reader(Owner()), heads, [])
    with pytest.raises(RemoteProtocolError, match="are being received"):
        feed(reader(Owner(), incoming=3 * BIG), heads, [])
    with pytest.raises(RemoteProtocolError, match="are allowed"):
        feed(reader(Owner(), message=BIG - 1), heads, [])


def test_no_payload_from_a_stranger() -> None:
    target = reader(Owner())
    target.is_trusted = False
    with pytest.raises(RemoteProtocolError, match="before authentication"):
        feed(target, small(b"h", b"x"), [])


def test_chunks_are_placed_exactly() -> None:
    """While a stream is open the reader never asks for bytes that it would have to copy on."""
    owner = Owner()
    target = reader(owner)
    data = large(b"header", b"z" * BIG, 1, 30_000)
    feed(target, data[0], [])
    assert sum(map(len, target.receive_buffers())) == PREFIX_BYTES
    feed(target, data[1][:PREFIX_BYTES], [])
    # The chunk, in the message's own memory, and the prefix behind it.
    assert [len(view) for view in target.receive_buffers()][-1] == PREFIX_BYTES
    assert sum(map(len, target.receive_buffers())) == 30_000 + PREFIX_BYTES


def test_nothing_comes_of_the_middle_of_a_chunk() -> None:
    """Which the reader says, and asks for the rest, to the byte."""
    owner = Owner()
    target = reader(owner)
    payload = bytes(range(256)) * (BIG // 256 + 1)
    head, chunk, *_ = large(b"header", payload, 1, len(payload))
    feed(target, head, [])
    seen = owner.seen
    assert take(target, chunk[:PREFIX_BYTES]) == (PREFIX_BYTES, True)
    place_in, third = PREFIX_BYTES, len(payload) // 3
    # The owner's memory is in two parts, of which the first is a third.
    for count, is_news in [(1, False), (third - 2, False), (1, True), (third, False), (1, False)]:
        assert take(target, chunk[place_in : place_in + count]) == (count, is_news)
        place_in += count
        assert sum(map(len, target.receive_buffers())) == len(chunk) - place_in + PREFIX_BYTES
        assert target.oldest_progress() == 1.0
    assert owner.seen == seen
    assert take(target, chunk[place_in:] + small(b"next")[:7]) == (len(chunk) - place_in + 7, True)
    assert owner.done == [(b"header", payload)]
    feed(target, small(b"next")[7:], [])
    assert owner.done[1:] == [(b"next", b"")]
    assert target.is_between_frames


class Crumbs(Owner):
    """Its messages lie in very many places."""

    def message_started(self, header: memoryview, payload_bytes: int) -> Message:
        message = super().message_started(header, payload_bytes)
        room = memoryview(message.room)
        message.views = [room[at : at + 64] for at in range(0, payload_bytes, 64)]
        return message


@given(st.lists(st.integers(0, 1 << 20), max_size=20))
def test_a_chunk_for_more_places_than_a_system_call_takes(cuts: list[int]) -> None:
    owner = Crumbs()
    target = reader(owner)
    payload = bytes(range(251)) * (BIG // 251 + 1)
    head, *chunks = large(b"header", payload, 1, len(payload))
    feed(target, head + chunks[0][:PREFIX_BYTES], [])
    offered = target.receive_buffers()
    assert len(offered) == VIEWS_MAX < len(payload) // 64
    # All of them filled, and still no end of the chunk: more may be there at once.
    count = VIEWS_MAX * 64
    assert take(target, chunks[0][PREFIX_BYTES:][:count]) == (count, True)
    feed(target, chunks[0][PREFIX_BYTES + count :] + small(b"last"), cuts)
    assert owner.done == [(b"header", payload), (b"last", b"")]


def test_small_frames_are_received_together() -> None:
    """One turn brings as many as have arrived, and a long one is asked for as a whole."""
    owner = Owner()
    target = reader(owner)
    data = small(b"one") + small(b"two", b"payload") + small(b"three")
    assert place(target.receive_buffers(), data) == len(data)
    target.bytes_received(len(data), 1.0)
    assert owner.done == [(b"one", b""), (b"two", b"payload"), (b"three", b"")]
    long = small(b"x" * 9000, b"y" * INLINE_BYTES_MAX)
    feed(target, long[:PREFIX_BYTES], [])
    assert sum(map(len, target.receive_buffers())) >= len(long) - PREFIX_BYTES
    feed(target, long[PREFIX_BYTES:], [])
    assert owner.done[3:] == [(b"x" * 9000, b"y" * INLINE_BYTES_MAX)]


def test_a_stranger_gets_little_room() -> None:
    target = reader(Owner())
    target.is_trusted = False
    feed(target, small(b"h" * 4000) * 10, [])
    assert sum(map(len, target.receive_buffers())) <= 8192


def test_progress_is_noted() -> None:
    target = reader(Owner())
    feed(target, HEAD[:5], [])
    assert target.oldest_progress() == 1.0
    feed(target, HEAD[5:], [])
    assert target.oldest_progress() == 1.0
