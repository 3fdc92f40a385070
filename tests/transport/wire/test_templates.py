"""Frames of known forms: what comes is what would come otherwise, and nothing else passes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.calls.templates import NO_ANSWER, CallTemplate, fixed_call
from flowengine.transport.connection import Connection
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import Limits
from flowengine.transport.tensors import routes
from flowengine.transport.tensors.deliveries import before_step
from flowengine.transport.wire import messages as m
from flowengine.transport.wire import templates
from flowengine.transport.wire.payload import NO_TENSORS, Payload
from flowengine.transport.wire.prefix import PREFIX_BYTES, message_prefix
from flowengine.transport.wire.templates import FrameTemplate, TensorTemplates, small_tensor
from tests.tools import links
from tests.tools.links import ConnectionLink

VALUES: list[Any] = [
    np.float32(2.5),
    np.array(7, np.int64),
    np.zeros((0,), np.float32),
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.arange(1000, dtype=np.float64).reshape(10, 100),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.array([True, False]),
    np.bool_(True),
    np.arange(3, dtype=">i4"),
    b"text",
]


def key(step: int, edge: str = "edge") -> RendezvousKey:
    return RendezvousKey(step, "/job:ps/task:0/device:CPU:0", 7, edge, "/job:worker/task:0/device:CPU:0")


def step_call(method: str) -> CallTemplate:
    """Calls that begin a part of a step."""
    return CallTemplate(
        method, lambda handle, step, first, last: [handle, step, [first, last], False], numbers=4
    )


def one_tensor(before: bytes, tail: bytes, value: Any) -> FrameTemplate | None:
    """The template of a frame with this tensor, if it is a small one."""
    small = small_tensor(value)
    return None if small is None else TensorTemplates(before, tail)[small]


def opened() -> ConnectionLink:
    link = ConnectionLink()
    link.open()
    return link


def deliver(side: Connection, step: int, value: Any, edge: str = "edge") -> None:
    where = key(step, edge)
    assert side.deliveries.deliver(where[1:5], where.step, value, value is None)


@given(
    st.lists(st.tuples(st.sampled_from(range(len(VALUES))), st.sampled_from("ab")), max_size=20),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_however_often_and_however_cut(sent: list[tuple[int, str]], cuts: list[int]) -> None:
    link = opened()
    found: list[e.Event] = []
    for step, (which, edge) in enumerate(sent, 1 << 40):
        deliver(link.dialler, step, VALUES[which], edge)
        turn = 0
        while data := b"".join(map(bytes, link.dialler.data_to_send())):
            part = data[: cuts[turn % len(cuts)]]
            turn += 1
            link.dialler.bytes_sent(len(part))
            room = link.listener.receive_buffers()[0]
            room[: len(part)] = part
            link.listener.bytes_received(len(part), link.now)
        found += link.listener.take_events()
    assert len(found) == len(sent)
    for step, ((which, edge), event) in enumerate(zip(sent, found, strict=True), 1 << 40):
        assert isinstance(event, e.TensorArrival)
        want = VALUES[which]
        assert event.key == key(step, edge)
        assert np.array_equal(event.value, want)
        if isinstance(want, np.generic):
            assert type(event.value) is type(want)
        assert event.cost == 512 + (12 if isinstance(want, bytes) else want.nbytes)
        link.listener.tensors.give_back(event.cost)


def test_values_do_not_share_memory() -> None:
    link = opened()
    values = []
    for step in range(5):
        deliver(link.dialler, step, np.full((4, 4), step, np.float32))
        link.settle()
        (event,) = link.listener.take_events()
        assert isinstance(event, e.TensorArrival)
        values.append(event.value)
    for step, value in enumerate(values):
        assert (value == step).all()
        assert value.flags.writeable


def test_what_a_tensor_along_an_edge_looks_like() -> None:
    template = one_tensor(before_step(5), b"\xc2", np.float32(1))
    assert template is not None
    assert template.payload_bytes == 4
    frame = template.frame(1 << 40) + np.float32(1).tobytes()
    header = frame[PREFIX_BYTES:-4]
    assert m.read_header(memoryview(header)) == (m.DELIVER, [5, 1 << 40, False], [[1, []]])
    assert frame[:PREFIX_BYTES] == message_prefix(len(header), 0, 4)


def test_what_is_no_small_tensor() -> None:
    for value in (np.arange(4).reshape(2, 2).T, np.zeros(100_000, np.float32), "text", b"text", None):
        assert small_tensor(value) is None
    assert small_tensor(np.zeros(3, np.int8)) is small_tensor(np.ones(3, np.int8))
    assert small_tensor(np.float32(1)) is small_tensor(np.float32(2))


def test_numbers_of_edges_that_begin_again_mean_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "ROUTES_MAX", 2)
    link = opened()
    for step in range(30):
        edges = [f"edge{(step + number) % 5}" for number in range(2)]
        for edge in edges:
            deliver(link.dialler, step, np.float32(step), edge)
        link.settle()
        events = [event for event in link.listener.take_events() if isinstance(event, e.TensorArrival)]
        assert [event.key for event in events] == [key(step, edge) for edge in edges]


def heard(side: Connection) -> int:
    """Templates that a connection knows beside those that it knew from the start."""
    table = side.wire.templates
    return sum(len(alike.takers) for alike in table.values()) - len(table._given)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_TEMPLATES_MAX", 3)
    link = opened()
    for size in range(1, 20):
        for step in range(2):
            deliver(link.dialler, step, np.full(size, step, np.int8))
            link.settle()
            (event,) = [each for each in link.listener.take_events() if isinstance(each, e.TensorArrival)]
            assert np.array_equal(event.value, np.full(size, step, np.int8))
        assert heard(link.listener) <= 3
        assert len(templates._small) <= 3


def test_credit_and_states_hold_for_known_frames_too() -> None:
    link = opened()
    for step in range(3):
        deliver(link.dialler, step, np.float32(step))
        link.settle()
    template = one_tensor(before_step(1), b"\xc2", np.float32(1))
    assert template is not None
    frame = template.frame(9) + np.float32(1).tobytes()
    link.listener._ledger.credit_in.left = 100
    room = link.listener.receive_buffers()[0]
    room[: len(frame)] = frame
    with pytest.raises(RemoteProtocolError, match="credit"):
        link.listener.bytes_received(len(frame), link.now)


NUMBERS = st.integers(0, (1 << 64) - 1)


def requests_of(side: Connection) -> list[e.CallArrival]:
    return [event for event in side.take_events() if isinstance(event, e.CallArrival)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["run", "go"]), st.booleans(), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
        max_size=8,
    ),
    st.lists(st.integers(1, 120), min_size=1),
    st.booleans(),
)
def test_calls_that_begin_a_part_and_their_answers(
    calls: list[tuple[str, bool, int, int, int, int]], cuts: list[int], is_known: bool
) -> None:
    link = opened()
    if is_known:
        link.listener.requests.know(step_call("run"))
    want = []
    for method, is_short, *numbers in calls:
        handle, step, first, last = numbers
        arguments = [handle, step, [first, last], False]
        if is_short:
            call = link.dialler.calls.request_again(step_call(method), handle, step, first, last)
        else:
            call = link.dialler.calls.request(method, arguments, NO_TENSORS)
        want.append((call.number, method, arguments))
    turn = 0
    found: list[e.CallArrival] = []
    while data := b"".join(map(bytes, link.dialler.data_to_send())):
        part = data[: cuts[turn % len(cuts)]]
        turn += 1
        link.dialler.bytes_sent(len(part))
        room = link.listener.receive_buffers()[0]
        room[: len(part)] = part
        link.listener.bytes_received(len(part), link.now)
        found += requests_of(link.listener)
    assert [event[:3] for event in found] == want
    assert all(not event.tensors for event in found)
    for number, (event, (_, is_short, *_)) in enumerate(zip(found, calls, strict=True)):
        if is_short or number % 2:
            link.listener.requests.reply_nothing(event.call)
        else:
            link.listener.requests.reply(event.call, None, NO_TENSORS)
    link.settle()
    answers = link.dialler.take_events()
    assert [
        (a.call.number, a.result, a.tensors, a.error) for a in answers if isinstance(a, e.CallAnswer)
    ] == [(event.call, None, [], None) for event in found]
    assert len(answers) == len(found)
    assert not link.dialler.calls.waiting
    assert not link.listener.requests.waiting
    assert link.listener.counters.calls_served == link.dialler.counters.calls_made == len(calls)
    assert link.dialler.counters.messages_sent == link.listener.counters.messages_received


def test_what_a_call_and_its_answer_look_like() -> None:
    frame = step_call("run").frame(7, 1, 1 << 40, 5, 6)
    header = memoryview(frame)[PREFIX_BYTES:]
    assert m.read_header(header) == (m.REQUEST, [7, "run", [1, 1 << 40, [5, 6], False]], [])
    assert frame[:PREFIX_BYTES] == message_prefix(len(header), 0, 0)
    answer = NO_ANSWER.frame(9)
    header = memoryview(answer)[PREFIX_BYTES:]
    assert m.read_header(header) == (m.REPLY, [9, None], [])
    assert answer[:PREFIX_BYTES] == message_prefix(len(header), 0, 0)


def feed(side: Connection, data: bytes) -> None:
    side.receive_buffers()[0][: len(data)] = data
    side.bytes_received(len(data), 0.0)


@pytest.mark.parametrize(("place", "instead"), [(-1, 0xC3), (-10, 0xD3), (-20, 0x93)])
def test_what_only_begins_as_such_a_call_is_read_as_what_it_is(place: int, instead: int) -> None:
    link = opened()
    link.listener.requests.know(step_call("run"))
    frame = bytearray(step_call("run").frame(1, 2, 3, 4, 5))
    frame[place] = instead
    if instead == 0x93:
        with pytest.raises(RemoteProtocolError, match="not msgpack"):
            feed(link.listener, bytes(frame))
        return
    feed(link.listener, bytes(frame))
    (event,) = requests_of(link.listener)
    assert event.arguments == [2, 3, [4, 5], instead == 0xC3]


def test_neither_is_taken_where_it_does_not_belong() -> None:
    for frame, problem in (
        (step_call("run").frame(2, 1, 1, 1, 1), "call 2 came where 1 is next"),
        (NO_ANSWER.frame(1), "call 1, which waits for none"),
    ):
        link = opened()
        link.listener.requests.know(step_call("run"))
        with pytest.raises(RemoteProtocolError, match=problem):
            feed(link.listener, frame)
        stranger = ConnectionLink()
        stranger.listener.requests.know(step_call("run"))
        with pytest.raises(RemoteProtocolError, match="await hello"):
            feed(stranger.listener, frame)


def test_a_call_whose_answer_has_begun_takes_no_other() -> None:
    """One in the short form that comes between the pieces of a large one."""
    link = opened()
    call = link.dialler.calls.request("get", None, NO_TENSORS)
    link.settle()
    link.listener.take_events()
    link.listener.requests.reply(call.number, None, Payload((np.zeros(1_000_000),)))
    begun = b"".join(map(bytes, link.listener.data_to_send()))
    links.feed(link.dialler, begun)
    assert call.is_being_answered
    with pytest.raises(RemoteProtocolError, match="call 1, which waits for none"):
        links.feed(link.dialler, NO_ANSWER.frame(call.number))
    assert not [event for event in link.dialler.take_events() if isinstance(event, e.CallAnswer)]


def test_a_side_that_leaves_still_reads_answers() -> None:
    link = opened()
    call = link.dialler.calls.request_again(step_call("run"), 1, 1, 1, 1)
    link.settle()
    link.listener.take_events()
    link.listener.requests.reply_nothing(call.number)
    link.dialler.goodbye()
    link.settle()
    answered = [event for event in link.dialler.take_events() if isinstance(event, e.CallAnswer)]
    assert [event.call for event in answered] == [call]


@given(st.lists(st.integers(0, 4), max_size=8), st.lists(st.integers(0, 200), min_size=1))
def test_what_a_stream_takes_in_pieces(messages: list[int], pieces: list[int]) -> None:
    link = opened()
    turn = 0
    sent = bytearray()
    before = link.dialler.counters.bytes_sent

    def send(buffers: Sequence[memoryview | bytes]) -> int:
        nonlocal turn
        data = b"".join(map(bytes, buffers))[: pieces[turn % len(pieces)]]
        turn += 1
        sent.extend(data)
        return len(data)

    for step, count in enumerate(messages):
        for number in range(count):
            link.dialler.tensors.push(key(step, f"edge{number}"), Payload((np.arange(number),)), False)
        link.dialler.send_with(send)
        assert link.dialler.counters.bytes_sent == before + len(sent)
    pieces.append(1000)
    while link.dialler.queued_bytes:
        link.dialler.send_with(send)
    assert not link.dialler.send_with(send)
    feed(link.listener, bytes(sent))
    events = [event for event in link.listener.take_events() if isinstance(event, e.TensorArrival)]
    assert [event.key for event in events] == [
        key(step, f"edge{number}") for step, count in enumerate(messages) for number in range(count)
    ]


ARGUMENTS: list[Any] = [
    [1, 2, None, False],
    [1, 2, None, True],
    [1, True, None, False],
    [300, 2, None, False],
    [1, 2, 0.5, False],
    [1, [2], None, False],
    [],
    None,
    {"a": 1},
    "text",
    ["x" * 300],
    ["x" * 5000],
]


def cut_into(link: ConnectionLink, source: Connection, target: Connection, cuts: list[int]) -> list[e.Event]:
    """Return the events of all that one side has to send, delivered in pieces."""
    found: list[e.Event] = []
    turn = 0
    while data := b"".join(map(bytes, source.data_to_send())):
        part = data[: cuts[turn % len(cuts)]]
        turn += 1
        source.bytes_sent(len(part))
        room = target.receive_buffers()[0]
        part_of_it = part[: len(room)]
        assert part_of_it == part
        room[: len(part)] = part
        target.bytes_received(len(part), link.now)
        found += target.take_events()
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from(range(len(ARGUMENTS))),
            st.sampled_from(range(len(VALUES))),
            st.sampled_from([None, {}, {"a": 1}, 0, False]),
        ),
        max_size=12,
    ),
    st.lists(st.integers(1, 400), min_size=1),
)
def test_calls_and_answers_that_come_again(steps: list[tuple[int, int, Any]], cuts: list[int]) -> None:
    """One after another, as a client makes them: each says what it would if it were the first."""
    link = opened()
    fixed = [fixed_call("run", arguments) for arguments in ARGUMENTS]
    for which, value, result in steps:
        call = link.dialler.calls.request_again(fixed[which])
        (asked,) = cut_into(link, link.dialler, link.listener, cuts)
        assert isinstance(asked, e.CallArrival)
        assert asked[:2] == (call.number, "run")
        assert repr(asked.arguments) == repr(ARGUMENTS[which])
        if isinstance(asked.arguments, list):
            asked.arguments.append("whatever is done to it here")
        sent = VALUES[value]
        if not link.listener.requests.reply_tensor(asked.call, result, sent):
            link.listener.requests.reply(asked.call, result, Payload([sent]))
        (answer,) = cut_into(link, link.listener, link.dialler, cuts)
        assert isinstance(answer, e.CallAnswer)
        assert answer.call is call
        assert repr(answer.result) == repr(result)
        (came,) = answer.tensors
        assert np.array_equal(came, sent)
        if isinstance(sent, np.ndarray | np.generic):
            assert (came.dtype, came.shape) == (sent.dtype.newbyteorder("="), sent.shape)
        if isinstance(came, np.ndarray) and came.ndim:
            assert came.flags.writeable
        if isinstance(answer.result, dict):
            answer.result["whatever"] = "is done to it"
    assert not link.dialler.calls.waiting
    assert not link.listener.requests.waiting
    assert link.listener.counters.calls_served == link.dialler.counters.calls_made == len(steps)
    assert link.dialler.counters.messages_sent == link.listener.counters.messages_received
    assert link.listener.counters.messages_sent == link.dialler.counters.messages_received


def test_what_comes_again_is_known() -> None:
    link = opened()
    form = fixed_call("run", [1, 2, None, False])
    read = 0
    unpack = m.unpack_header

    def counted(header: memoryview) -> list[Any]:
        nonlocal read
        read += 1
        return unpack(header)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(m, "unpack_header", counted)
        for number in range(5):
            link.dialler.calls.request_again(form)
            link.settle()
            (asked,) = requests_of(link.listener)
            assert link.listener.requests.reply_tensor(asked.call, {}, np.float32(number))
            link.settle()
            (answer,) = link.dialler.take_events()
            assert isinstance(answer, e.CallAnswer)
            assert (answer.result, answer.tensors) == ({}, [number])
    # The first of each only.
    assert read == 2


@pytest.mark.parametrize("arguments", [[1, [2, 3]], [1, {"a": 2}], [1, 2]])
def test_whoever_is_called_may_change_what_it_is_given(arguments: Any) -> None:
    """A call that says the same as one before brings arguments of its own."""
    link = opened()
    for _ in range(3):
        link.dialler.calls.request_again(fixed_call("run", arguments))
        link.settle()
        (asked,) = requests_of(link.listener)
        assert asked.arguments == arguments
        if isinstance(asked.arguments[1], list | dict):
            asked.arguments[1].clear()
        asked.arguments.append("mine")


def test_what_such_an_answer_looks_like() -> None:
    link = opened()
    link.dialler.calls.request_again(fixed_call("run", []))
    link.settle()
    (asked,) = requests_of(link.listener)
    for result, value in ((0, np.float32(1)), ({"a": 1}, np.float32(1)), (None, b"text"), (None, "text")):
        assert not link.listener.requests.reply_tensor(asked.call, result, value)
    assert link.listener.requests.reply_tensor(asked.call, {}, np.float32(1))
    frame = b"".join(map(bytes, link.listener.data_to_send()))
    header = memoryview(frame)[PREFIX_BYTES:-4]
    assert m.read_header(header) == (m.REPLY, [1, {}], [[1, []]])
    assert frame[:PREFIX_BYTES] == message_prefix(len(header), 0, 4)


def test_arguments_that_cannot_travel_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="'run' cannot be called with these arguments"):
        fixed_call("run", [object()])


def test_a_tensor_that_the_other_side_does_not_take_is_refused_as_ever() -> None:
    link = ConnectionLink(limits=Limits(message_bytes_max=100))
    link.open()
    link.dialler.calls.request_again(fixed_call("run", []))
    link.settle()
    (asked,) = requests_of(link.listener)
    assert not link.listener.requests.reply_tensor(asked.call, None, np.zeros(101, np.uint8))
    with pytest.raises(ResourceExhaustedError, match="takes messages of 100 bytes"):
        link.listener.requests.reply(asked.call, None, Payload([np.zeros(101, np.uint8)]))


def test_calls_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_TEMPLATES_MAX", 3)
    link = opened()
    for number in range(20):
        for _ in range(2):
            link.dialler.calls.request_again(fixed_call("run", [number, "x" * (number % 7)]))
            link.settle()
            (asked,) = requests_of(link.listener)
            assert asked.arguments == [number, "x" * (number % 7)]
            assert link.listener.requests.reply_tensor(asked.call, None, np.full(number + 1, number, np.int8))
            link.settle()
            (answer,) = link.dialler.take_events()
            assert isinstance(answer, e.CallAnswer)
            assert np.array_equal(answer.tensors[0], np.full(number + 1, number, np.int8))
        for side in (link.dialler, link.listener):
            assert heard(side) <= 3
