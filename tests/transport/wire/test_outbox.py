"""Messages to send: however they are queued and cut, they leave whole and in the promised order."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.transport.limits import CHUNK_BYTES, INLINE_BYTES_MAX
from flowengine.transport.wire.framing import FrameReader
from flowengine.transport.wire.outbox import Outbox
from flowengine.transport.wire.placing import place
from flowengine.transport.wire.prefix import DATA, MESSAGE, PREFIX, PREFIX_BYTES, STREAM_MAX

BIG = INLINE_BYTES_MAX + 1000


def outbox(chunk_bytes: int = CHUNK_BYTES) -> Outbox:
    made = Outbox()
    made.chunk_bytes = chunk_bytes
    made.incoming_bytes_max = 1 << 30
    made.streams_max = 3
    return made


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """(kind, stream, what follows the prefix) of every frame."""
    found, place = [], 0
    while place < len(data):
        _, _, kind, header, stream, payload = PREFIX.unpack_from(data, place)
        size = header + (0 if kind == MESSAGE and stream else payload)
        begin = place + PREFIX_BYTES
        place = begin + size
        found.append((kind, stream, data[begin:place]))
    assert place == len(data), "the last frame is cut"
    return found


def send(box: Outbox, count: int) -> bytes:
    """Up to `count` bytes of what the outbox gives next, as sent; it is asked whether there is more."""
    joined = b"".join(box.buffers())
    taken = joined[:count]
    queued = box.queued_bytes
    is_more = box.bytes_sent(len(taken))
    assert is_more == bool(box)
    assert box.queued_bytes == queued - len(taken)
    if len(taken) < len(joined):
        assert box.is_under_way
        assert b"".join(box.buffers()) == joined[len(taken) :]
    return taken


messages = st.one_of(
    st.tuples(st.just("small"), st.integers(0, 3000)),
    st.tuples(st.just("large"), st.integers(BIG, 2 * BIG)),
)
#: Pieces of a frame, frames whole, and several.
pieces = st.one_of(st.integers(1, 50), st.integers(10_000, 40_000), st.just(1 << 30))


@given(st.lists(messages, max_size=5), st.lists(pieces, max_size=10), st.integers(1, BIG))
def test_everything_leaves_whole_however_it_is_cut(
    queue: list[tuple[str, int]], cuts: list[int], chunk_bytes: int
) -> None:
    chunk_bytes = max(chunk_bytes, 2000)
    box = outbox(chunk_bytes)
    waiting, turns = deque(queue), deque([*cuts, 1 << 30])
    data = bytearray()
    sent: list[tuple[str, bytes]] = []
    while waiting or box:
        if waiting:
            kind, size = waiting.popleft()
            payload = bytes([len(sent) + 1]) * size
            view = [memoryview(payload)[: size // 2], memoryview(payload)[size // 2 :]]
            header = b"%d" % len(sent)
            if kind == "small":
                box.add_small(header, view, size)
            else:
                box.add_large(lambda header=header: header, view, size)  # type: ignore[misc]
            sent.append((kind, header + payload))
        data += send(box, turns[0])
        turns.rotate(-1)
    assert box.queued_bytes == 0
    assert not box.is_under_way
    streams: dict[int, bytes] = {}
    whole = []
    for frame, stream, body in frames(bytes(data)):
        if frame == DATA:
            assert 0 < len(body) <= chunk_bytes
            streams[stream] += body
        elif stream:
            streams[stream] = body
        else:
            whole.append(body)
    assert whole == [body for size, body in sent if size == "small"]
    assert list(streams.values()) == [body for size, body in sent if size == "large"]


@pytest.mark.parametrize("chunk_bytes", [20_000, CHUNK_BYTES])
def test_a_small_message_waits_for_one_chunk(chunk_bytes: int) -> None:
    box = outbox(chunk_bytes)
    payload = bytes(3 * CHUNK_BYTES)
    box.add_large(lambda: b"head", [memoryview(payload)], len(payload))
    data = send(box, 10_000)
    box.add_small(b"small", [], 0)
    while box:
        data += send(box, 10_000)
    kinds = [(kind, stream, len(body)) for kind, stream, body in frames(data)]
    assert kinds[:3] == [(MESSAGE, 1, 4), (DATA, 1, chunk_bytes), (MESSAGE, 0, 5)]
    assert all(kind == (DATA, 1, chunk_bytes) for kind in kinds[3:-1])


def test_streams_go_in_turn() -> None:
    """Each stream sends a chunk before any sends its next, also those that begin while others run."""
    box = outbox(40_000)
    order = [200_000, 90_000, 200_000, 70_000, 300_000]
    for size in order:
        box.add_large(lambda: b"head", [memoryview(bytes(size))], size)
    left = dict(enumerate(order, 1))
    turns = [1, 2, 3]  # as many as the receiver takes at one time
    coming = [4, 5]
    chunks = [
        (stream, len(body)) for kind, stream, body in frames(send(box, 1 << 30) + rest(box)) if kind == DATA
    ]
    for stream, size in chunks:
        assert stream == turns.pop(0)
        assert size == min(40_000, left[stream])
        left[stream] -= size
        if left[stream]:
            turns.append(stream)
        elif coming:
            turns.append(coming.pop(0))
    assert not any(left.values())


@pytest.mark.parametrize("bound", ["streams", "bytes"])
@pytest.mark.parametrize("moved", [0, 5000])
@pytest.mark.parametrize("given_up", [[0], [1], [2], [0, 1], [1, 0], [0, 1, 2], [2, 1, 0]])
def test_who_is_given_up_makes_room_for_who_waits(bound: str, moved: int, given_up: list[int]) -> None:
    """The next in line begins by itself: nothing else may be sent for long. What is left is counted right."""
    box = outbox(40_000)
    if bound == "streams":
        box.streams_max = 1
    else:
        box.incoming_bytes_max = BIG
    larges = [
        box.add_large(lambda number=number: b"head%d" % number, [memoryview(bytes(BIG))], BIG)  # type: ignore[misc]
        for number in range(3)
    ]
    data = send(box, moved)
    for number in given_up:
        assert box.abandon(larges[number])
        assert box.abandon(larges[number])
    left = [number for number in range(3) if number not in given_up]
    assert (box.open_streams, box.waiting_streams) == (min(1, len(left)), max(0, len(left) - 1))
    data += rest(box)
    assert (box.queued_bytes, box.open_bytes) == (0, 0)
    found = frames(data)
    names = {stream: body for kind, stream, body in found if kind == MESSAGE}
    sizes = dict.fromkeys(names, 0)
    for kind, stream, body in found:
        sizes[stream] += len(body) if kind == DATA else 0
    assert [names[stream] for stream in names if sizes[stream] == BIG] == [b"head%d" % each for each in left]
    assert not any(box.abandon(larges[number]) for number in left), "they are on their way already"


def rest(box: Outbox) -> bytes:
    """All that is still to be sent."""
    data = b""
    while box:
        data += send(box, 1 << 30)
    return data


def test_stream_numbers_begin_anew() -> None:
    """Numbers have 32 bits: after the last comes 1 again, and the receiver expects just that."""
    box = outbox()
    box._last_stream = STREAM_MAX - 1
    owner = Whole()
    reader = FrameReader(owner, message_bytes_max=1 << 30, incoming_bytes_max=1 << 30, streams_max=3)
    reader.is_trusted = True
    reader._last_stream = STREAM_MAX - 1
    for number in range(3):
        box.add_large(lambda number=number: b"head%d" % number, [memoryview(bytes(BIG))], BIG)  # type: ignore[misc]
    data = memoryview(rest(box))
    assert [stream for kind, stream, _ in frames(bytes(data)) if kind == MESSAGE] == [STREAM_MAX, 1, 2]
    while data:
        count = place(reader.receive_buffers(), data)
        reader.bytes_received(count, 0.0)
        data = data[count:]
    assert owner.finished == [b"head0", b"head1", b"head2"]


class Whole:
    """Takes messages that come as streams."""

    def __init__(self) -> None:
        self.finished: list[bytes] = []

    def message_started(self, header: memoryview, payload_bytes: int) -> Started:
        return Started(bytes(header), payload_bytes)

    def message_finished(self, incoming: Started) -> None:
        self.finished.append(incoming.header)

    def message_whole(self, header: memoryview, inline: bytearray | None) -> None:
        raise AssertionError("no small message was sent")

    def message_abandoned(self, incoming: Started) -> None:
        raise AssertionError("no stream was abandoned")


class Started:
    """A stream under reception."""

    def __init__(self, header: bytes, payload_bytes: int) -> None:
        self.header = header
        self.views = [memoryview(bytearray(payload_bytes))]
