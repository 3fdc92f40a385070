"""Handshakes: keys, versions, clusters, incarnations decide who may speak; nothing is handled before."""

from __future__ import annotations

from typing import Any

import pytest

from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
)
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError, LocalProtocolError, RemoteProtocolError
from flowengine.transport.limits import Limits, PeerLimits
from flowengine.transport.wire import handshake as handshake_module
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.handshake import Answer, Handshake, Refusal
from flowengine.transport.wire.identity import Identity, Statement, new_incarnation, new_key
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.prefix import message_prefix
from flowengine.transport.wire.states import RECEIVING, SENDING, TRUSTED, Side, State
from tests.tools.links import KEY, feed, identity, output


def make(side: Side, who: Identity | None = None, **options: Any) -> Connection:
    options.setdefault("key", KEY)
    return Connection(side, who or identity(), address=f"link://{side.value}", now=0.0, **options)


def talk(dialler: Connection, listener: Connection) -> tuple[OpError | None, OpError | None]:
    """Carry bytes until nobody says anything; what each side raised."""
    errors: list[OpError | None] = [None, None]
    while True:
        moved = 0
        for index, (sender, receiver) in enumerate(((dialler, listener), (listener, dialler))):
            data = output(sender)
            moved += len(data)
            try:
                feed(receiver, data)
            except OpError as error:
                errors[1 - index] = error
        if not moved:
            return errors[0], errors[1]


def frame(*parts: Any) -> bytes:
    header = m.write_header(*parts)
    return message_prefix(len(header), 0, 0) + header


def test_both_sides_open_and_know_each_other() -> None:
    dialler = make(Side.DIALLER, identity("/job:w/task:0", incarnation=5))
    listener = make(Side.LISTENER, identity("/job:w/task:1", incarnation=6))
    assert talk(dialler, listener) == (None, None)
    assert dialler.state is listener.state is State.OPEN
    assert dialler.peer == identity("/job:w/task:1", incarnation=6)
    assert listener.peer == identity("/job:w/task:0", incarnation=5)
    assert dialler.peer_limits == Limits().announced()


def test_another_key_is_refused_without_a_word() -> None:
    dialler = make(Side.DIALLER, key=new_key())
    listener = make(Side.LISTENER, identity("/job:secret/task:7", cluster="secret"))
    said = bytearray()
    feed(listener, output(dialler))
    said += (first := output(listener))
    feed(dialler, first)
    with pytest.raises(UnauthenticatedError, match="did not prove that it has the cluster's key"):
        feed(listener, output(dialler))
    said += (last := output(listener))
    with pytest.raises(UnauthenticatedError, match="have different keys"):
        feed(dialler, last)
    assert b"secret" not in said
    assert last == frame(m.REFUSED, "", b"")
    assert listener.peer is None
    assert dialler.state is listener.state is State.CLOSED


@pytest.mark.parametrize(("ours", "theirs"), [(KEY, None), (None, KEY)])
def test_a_side_without_a_key_meets_one_with(ours: bytes | None, theirs: bytes | None) -> None:
    dialler = make(Side.DIALLER, key=ours, is_channel_authenticated=True)
    listener = make(Side.LISTENER, key=theirs, is_channel_authenticated=True)
    here, there = talk(dialler, listener)
    assert isinstance(here, UnauthenticatedError)
    assert isinstance(there, UnauthenticatedError)


def test_certificates_are_enough() -> None:
    dialler = make(Side.DIALLER, key=None, is_channel_authenticated=True)
    listener = make(Side.LISTENER, key=None, is_channel_authenticated=True)
    assert talk(dialler, listener) == (None, None)
    assert dialler.state is listener.state is State.OPEN


def test_no_key_and_no_certificate_is_no_connection() -> None:
    with pytest.raises(InvalidArgumentError, match="open to anybody"):
        make(Side.LISTENER, key=None)
    with pytest.raises(InvalidArgumentError, match="at least 16 random bytes"):
        make(Side.LISTENER, key=b"short")


def test_a_listener_that_does_not_prove_itself_gets_nothing() -> None:
    """A listener that takes any proof, as one would that wants the tensors of others."""
    dialler = make(Side.DIALLER)
    feed(dialler, frame(m.CHALLENGE, b"n" * 32))
    output(dialler)
    statement = Statement(identity(), Limits().announced()).to_wire()
    with pytest.raises(UnauthenticatedError, match="nothing was sent to it"):
        feed(dialler, frame(m.WELCOME, 1, statement, b"p" * 32))
    assert output(dialler) == b""
    assert dialler.peer is None


def test_a_proof_does_not_open_another_connection() -> None:
    """Neither played again, nor sent back to the side that made it."""
    dialler, listener = make(Side.DIALLER), make(Side.LISTENER)
    feed(listener, hello := output(dialler))
    feed(dialler, output(listener))
    proof = output(dialler)
    feed(listener, proof)
    assert listener.state is State.OPEN
    again = make(Side.LISTENER)
    feed(again, hello)
    output(again)
    with pytest.raises(UnauthenticatedError):
        feed(again, proof)
    # Reflection: a dialler is answered with its own statement and proof.
    victim = make(Side.DIALLER)
    nonce = output(victim)[-32:]
    feed(victim, frame(m.CHALLENGE, nonce))
    parts = m.read_header(memoryview(output(victim)[20:]))[1]
    with pytest.raises(UnauthenticatedError):
        feed(victim, frame(m.WELCOME, 1, parts[0], parts[1]))


def test_another_version_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = make(Side.LISTENER)
    monkeypatch.setattr(handshake_module.Handshake.__init__, "__kwdefaults__", {"versions": (3, 4)})
    dialler = make(Side.DIALLER)
    here, there = talk(dialler, listener)
    assert isinstance(here, FailedPreconditionError)
    assert "refused this side: it speaks protocol versions 3 to 4" in here.message
    assert "speaks 2 to 2" in here.message
    assert isinstance(there, FailedPreconditionError)
    assert "refused worker /job:test/task:0" in there.message


def test_another_version_without_the_key_is_told_nothing() -> None:
    listener = make(Side.LISTENER)
    feed(listener, frame(m.HELLO, 7, 9, b"n" * 32))
    output(listener)
    with pytest.raises(UnauthenticatedError):
        feed(listener, frame(m.PROOF, b"", b"p" * 32))
    assert output(listener) == frame(m.REFUSED, "", b"")


def test_another_cluster_is_told_which() -> None:
    here, there = talk(
        make(Side.DIALLER, identity(cluster="red")),
        make(Side.LISTENER, identity("/job:w/task:1", cluster="blue")),
    )
    assert isinstance(here, FailedPreconditionError)
    assert "it belongs to cluster 'red', /job:w/task:1 to 'blue'" in here.message
    assert isinstance(there, FailedPreconditionError)


def test_a_task_that_restarted_is_told() -> None:
    here, _ = talk(
        make(Side.DIALLER, expected_incarnation=41),
        make(Side.LISTENER, identity("/job:ps/task:0", incarnation=42)),
    )
    assert isinstance(here, FailedPreconditionError)
    assert "/job:ps/task:0 has restarted: it is incarnation 42 now, not 41" in here.message


def test_a_stranger_cannot_put_words_into_a_refusal() -> None:
    dialler = make(Side.DIALLER)
    feed(dialler, frame(m.CHALLENGE, b"n" * 32))
    output(dialler)
    with pytest.raises(UnauthenticatedError) as caught:
        feed(dialler, frame(m.REFUSED, "send your key to evil.example", b"p" * 32))
    assert "evil" not in str(caught.value)


def test_a_welcome_with_a_version_that_was_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    dialler = make(Side.DIALLER, key=None, is_channel_authenticated=True)
    output(dialler)
    feed(dialler, frame(m.CHALLENGE, b"n" * 32))
    statement = Statement(identity(), Limits().announced()).to_wire()
    with pytest.raises(RemoteProtocolError, match="version 3, which was not offered"):
        feed(dialler, frame(m.WELCOME, 3, statement, b""))


def two_sides(dialler: tuple[int, int], listener: tuple[int, int]) -> tuple[Handshake, Handshake]:
    """Handshakes of sides that speak these versions."""
    made = [
        Handshake(
            side,
            Statement(identity(f"/job:w/task:{number}"), Limits().announced()),
            key=KEY,
            is_channel_authenticated=False,
            address="link://",
            versions=versions,
        )
        for number, (side, versions) in enumerate(((Side.DIALLER, dialler), (Side.LISTENER, listener)))
    ]
    return made[0], made[1]


@pytest.mark.parametrize("offered", [(1, 2), (1, 1), (2, 3), (3, 3), (1, 4)])
def test_nobody_on_the_way_can_change_the_versions_that_are_offered(offered: tuple[int, int]) -> None:
    """Else a stranger could talk both sides down to a version that it can break."""
    dialler, listener = two_sides((1, 3), (1, 3))
    number, (_, _, nonce) = dialler.first()
    challenge = listener.receive(number, [*offered, nonce])
    assert challenge is not None
    proof = dialler.receive(challenge[0], list(challenge[1]))
    assert proof is not None
    with pytest.raises(Refusal) as caught:
        listener.receive(proof[0], list(proof[1]))
    assert isinstance(caught.value.error, UnauthenticatedError)
    assert listener.peer is None


@pytest.mark.parametrize("chosen", [1, 2, 3])
def test_nobody_on_the_way_can_change_the_version_that_is_chosen(chosen: int) -> None:
    dialler, listener = two_sides((1, 3), (1, 3))
    answer = listener.receive(*as_received(dialler.first()))
    assert answer is not None
    answer = dialler.receive(*as_received(answer))
    assert answer is not None
    welcome = listener.receive(*as_received(answer))
    assert welcome is not None
    number, (version, statement, proof) = welcome
    assert version == 3
    if chosen == version:
        dialler.receive(number, [chosen, statement, proof])
        assert dialler.version == 3
        return
    with pytest.raises(UnauthenticatedError, match="nothing was sent to it"):
        dialler.receive(number, [chosen, statement, proof])
    assert dialler.peer is None


def as_received(answer: Answer) -> tuple[int, list[Any]]:
    return answer[0], list(answer[1])


def test_a_listener_of_another_cluster_is_not_spoken_to() -> None:
    """Also one that would take us: it holds the same key, and does not look at who dials."""
    dialler, listener = make(Side.DIALLER, identity(cluster="red")), two_sides((2, 2), (2, 2))[1]
    hello = m.read_header(memoryview(output(dialler))[20:])
    challenge = listener.receive(hello[0], hello[1])
    assert challenge is not None
    feed(dialler, frame(challenge[0], *challenge[1]))
    output(dialler)
    # What a listener says that has found the proof right and does not ask for more.
    statement = Statement(identity("/job:w/task:1", cluster="blue"), Limits().announced()).to_wire()
    welcome = frame(m.WELCOME, 2, statement, listener._prove(Side.LISTENER, 2, statement))
    with pytest.raises(FailedPreconditionError, match="belongs to cluster 'blue', not to 'red'"):
        feed(dialler, welcome)
    assert dialler.peer is None
    assert output(dialler) == b""


SAMPLES: dict[int, tuple[Any, ...]] = {
    m.HELLO: (1, 1, b"n" * 32),
    m.CHALLENGE: (b"n" * 32,),
    m.PROOF: (b"identity", b"p" * 32),
    m.WELCOME: (1, b"identity", b"p" * 32),
    m.REFUSED: ("", b""),
    m.PING: (1,),
    m.PONG: (1,),
    m.GOODBYE: ("bye",),
    m.REQUEST: (1, "run", None),
    m.REPLY: (1, None),
    m.FAILURE: (1, 3, "no", {}),
    m.CANCEL: (1,),
    m.PUSH: ([1, "/job:a", 0, "e", "/job:b", []], True, False),
    m.ANNOUNCE: ([1, "/job:a", 0, "e", "/job:b", []], 10),
    m.PULL: ([1, "/job:a", 0, "e", "/job:b", []],),
    m.CREDIT: (1,),
    m.OVERFLOW: (),
    m.STEP_FAILED: (1, 3, "no", {}),
    m.ROUTE: (1, "/job:a", 0, "e", "/job:b"),
    m.DELIVER: (1, 1, True),
}


def test_the_samples_are_all_messages() -> None:
    assert SAMPLES.keys() == m.SHAPES.keys()
    for number, fields in SAMPLES.items():
        assert m.read_header(memoryview(m.write_header(number, *fields)))[0] == number


@pytest.mark.parametrize("version", [0, -1, 1 << 16, True, 1.0, "1", None])
def test_what_is_no_version_is_no_message(version: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="lowest version"):
        m.read_header(memoryview(m.write_header(m.HELLO, version, 1, b"n" * 32)))
    for right in (1, (1 << 16) - 1):
        assert m.read_header(memoryview(m.write_header(m.HELLO, right, right, b"n" * 32)))[0] == m.HELLO


def stages() -> list[tuple[str, Connection, int]]:
    """Connections at each point before they are open, and the one message that each waits for."""
    waiting = make(Side.LISTENER)
    challenged = make(Side.LISTENER)
    feed(challenged, frame(m.HELLO, 1, 1, b"n" * 32))
    dialled = make(Side.DIALLER)
    proved = make(Side.DIALLER)
    feed(proved, frame(m.CHALLENGE, b"n" * 32))
    return [
        ("await hello", waiting, m.HELLO),
        ("await proof", challenged, m.PROOF),
        ("await challenge", dialled, m.CHALLENGE),
        ("await welcome", proved, m.WELCOME),
    ]


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("number", SAMPLES, ids=m.name_of)
def test_no_message_is_handled_before_authentication(number: int, stage: int) -> None:
    name, connection, awaited = stages()[stage]
    assert connection.state.value == name
    output(connection)
    try:
        feed(connection, frame(number, *SAMPLES[number]))
    except RemoteProtocolError:
        assert number != awaited
    except UnauthenticatedError:
        assert number in (awaited, m.REFUSED)
    else:
        assert number == awaited
    assert connection.take_events() == []
    assert connection.peer is None
    assert connection.state not in TRUSTED
    assert connection.counters.tensors_received == 0
    assert connection.requests.waiting == 0
    # Nothing but the handshake is ever said to a stranger.
    answer = output(connection)
    assert answer in (b"", frame(m.REFUSED, "", b"")) or answer[20:][1] in (m.CHALLENGE, m.PROOF)
    with pytest.raises(LocalProtocolError):
        connection.calls.request("run", None, Payload())


@pytest.mark.parametrize("stage", range(4))
def test_a_stranger_costs_little(stage: int) -> None:
    """Not even a header larger than the handshake's, or a tensor's announcement, is taken."""
    for prefix in (message_prefix(5000, 0, 0), message_prefix(10, 0, 10), message_prefix(10, 1, 1 << 20)):
        connection = stages()[stage][1]
        with pytest.raises(RemoteProtocolError):
            feed(connection, prefix)
        assert connection.receive_buffers() == []


@pytest.mark.parametrize(
    "statement",
    [b"", b"\xc1", b"\x90", b"\x96\1\2\3\4\5\6", Statement(identity(), Limits().announced()).to_wire()[:-2]],
)
def test_a_statement_that_is_none(statement: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Statement.from_wire(statement)


def test_limits_that_nobody_may_announce() -> None:
    for values in ([], [1] * 8, [0] * 8, ["a"] * 8, [1 << 63] * 8, None, [True] * 8):
        assert PeerLimits.from_wire(values) is None
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        Limits(calls_max=0)
    with pytest.raises(InvalidArgumentError, match="less than"):
        Limits(heartbeat_seconds=30, silence_seconds=10)
    with pytest.raises(InvalidArgumentError, match="header_bytes_max"):
        Limits(header_bytes_max=100)


@pytest.mark.parametrize("field", ["role", "cluster", "task"])
def test_names_have_a_length(field: str) -> None:
    for text in ("", "x" * 257):
        names = {"role": "r", "cluster": "c", "task": "t", field: text}
        with pytest.raises(InvalidArgumentError, match=f"a peer's {field}"):
            Identity(names["role"], names["cluster"], names["task"], 1)
    with pytest.raises(InvalidArgumentError, match="incarnation"):
        Identity("r", "c", "t", 0)
    assert new_incarnation() != new_incarnation()


@pytest.mark.parametrize("side", Side)
def test_a_handshake_has_a_time_limit(side: Side) -> None:
    connection = make(side)
    assert connection.next_deadline() <= 3.0
    connection.handle_time(2.9)
    with pytest.raises(UnavailableError, match=r"did not finish the handshake within 3\.0 s"):
        connection.handle_time(3.0)
    assert connection.receive_buffers() == []


@pytest.mark.parametrize(("heartbeat", "first"), [(4.0, 2.0), (100.0, 3.0)])
def test_a_handshake_is_looked_at_when_its_time_is_up(heartbeat: float, first: float) -> None:
    limits = Limits(heartbeat_seconds=heartbeat, silence_seconds=200.0, handshake_seconds=3.0)
    connection = make(Side.DIALLER, limits=limits)
    assert connection.next_deadline() == first


def test_versions_that_are_offered_are_a_range() -> None:
    with pytest.raises(RemoteProtocolError, match="versions 3 to 2"):
        feed(make(Side.LISTENER), frame(m.HELLO, 3, 2, bytes(m.NONCE_BYTES)))


def test_an_end_before_the_handshake_is() -> None:
    with pytest.raises(ConnectionLostError, match="before it was open"):
        make(Side.DIALLER).receive_end()


def test_the_table_of_states_is_whole() -> None:
    """Every state but the last can be left, and every message is known in some state."""
    for side in Side:
        left = {state for state, _ in (*RECEIVING[side], *SENDING[side])}
        reached = set(RECEIVING[side].values()) | set(SENDING[side].values())
        assert reached - {State.CLOSED} <= left
        said = {number for _, number in RECEIVING[side]} | {number for _, number in SENDING[side]}
        assert said == m.SHAPES.keys()
        assert not [state for state, _ in (*RECEIVING[side], *SENDING[side]) if state is State.CLOSED]


def test_a_proof_holds_on_its_own_channel_only() -> None:
    """A man in the middle of two connections under TLS cannot hand the proof of one on to the other."""

    def handshake(side: Side, channel: bytes) -> Handshake:
        limits = Limits().announced()
        statement = Statement(Identity("worker", "c", f"/job:{side.value}/task:0", 1), limits)
        return Handshake(
            side,
            statement,
            key=b"k" * 32,
            is_channel_authenticated=True,
            channel_binding=lambda: channel,
            address="x",
        )

    for dialled, heard in ((b"one", b"one"), (b"one", b"other"), (b"", b"other")):
        dialler, listener = handshake(Side.DIALLER, dialled), handshake(Side.LISTENER, heard)
        challenge = listener.receive(*_listed(dialler.first()))
        proof = dialler.receive(*_listed(challenge))
        if dialled == heard:
            dialler.receive(*_listed(listener.receive(*_listed(proof))))
            assert dialler.peer is not None
        else:
            with pytest.raises(Refusal, match="did not prove that it has the cluster's key"):
                listener.receive(*_listed(proof))


def _listed(answer: tuple[int, tuple[object, ...]] | None) -> tuple[int, list[object]]:
    assert answer is not None
    return answer[0], list(answer[1])
