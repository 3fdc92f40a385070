"""The life of a connection, as a table.

Two sides: the one that dialled and the one that listened. `STATES` says which messages each may receive and
send in which state and which state follows; a message that the table lacks there is an error of its sender.
Before a connection is OPEN nothing is handled but the handshake.

              dialler                                      listener
    HELLO ──────────────►   versions, nonce            AWAIT_HELLO
    AWAIT_CHALLENGE   ◄──────────────  CHALLENGE           nonce
    PROOF ──────────────►   identity, HMAC             AWAIT_PROOF
    AWAIT_WELCOME     ◄──────────────  WELCOME             version, identity, HMAC
    OPEN                                               OPEN
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from flowengine.transport.errors import LocalProtocolError, RemoteProtocolError
from flowengine.transport.wire import messages as m


class Side(Enum):
    DIALLER = "dialler"
    LISTENER = "listener"


class State(Enum):
    """The state of a connection."""

    START = "start"
    AWAIT_HELLO = "await hello"
    AWAIT_CHALLENGE = "await challenge"
    AWAIT_PROOF = "await proof"
    AWAIT_WELCOME = "await welcome"
    #: The proof was found right; the answer is being decided.
    DECIDING = "deciding"
    OPEN = "open"
    #: This side said goodbye; messages of the other side are still read.
    LEAVING = "leaving"
    #: The other side said goodbye.
    LEFT = "left"
    CLOSED = "closed"


#: The messages that may be sent and received while a connection is open.
OPEN_MESSAGES: Final = (
    m.PING,
    m.PONG,
    m.REQUEST,
    m.REPLY,
    m.FAILURE,
    m.CANCEL,
    m.PUSH,
    m.ANNOUNCE,
    m.PULL,
    m.CREDIT,
    m.OVERFLOW,
    m.STEP_FAILED,
    m.ROUTE,
    m.DELIVER,
)

#: The same, as the shortest way through the table: nearly every message is one of these in OPEN.
_OPEN: Final = frozenset(OPEN_MESSAGES)

Table = dict[tuple[State, int], State]

_in_open: Final[Table] = {(State.OPEN, number): State.OPEN for number in OPEN_MESSAGES}
_while_leaving: Final[Table] = {(State.LEAVING, number): State.LEAVING for number in OPEN_MESSAGES}

#: (state, message received) -> next state
RECEIVING: Final[dict[Side, Table]] = {
    Side.DIALLER: {
        (State.AWAIT_CHALLENGE, m.CHALLENGE): State.DECIDING,
        (State.AWAIT_WELCOME, m.WELCOME): State.OPEN,
        (State.AWAIT_WELCOME, m.REFUSED): State.CLOSED,
        **_in_open,
        **_while_leaving,
        (State.OPEN, m.GOODBYE): State.LEFT,
        (State.LEAVING, m.GOODBYE): State.CLOSED,
    },
    Side.LISTENER: {
        (State.AWAIT_HELLO, m.HELLO): State.DECIDING,
        (State.AWAIT_PROOF, m.PROOF): State.DECIDING,
        **_in_open,
        **_while_leaving,
        (State.OPEN, m.GOODBYE): State.LEFT,
        (State.LEAVING, m.GOODBYE): State.CLOSED,
    },
}

#: (state, message sent) -> next state
SENDING: Final[dict[Side, Table]] = {
    Side.DIALLER: {
        (State.START, m.HELLO): State.AWAIT_CHALLENGE,
        (State.DECIDING, m.PROOF): State.AWAIT_WELCOME,
        **_in_open,
        (State.OPEN, m.GOODBYE): State.LEAVING,
        (State.LEFT, m.GOODBYE): State.CLOSED,
    },
    Side.LISTENER: {
        (State.DECIDING, m.CHALLENGE): State.AWAIT_PROOF,
        (State.DECIDING, m.WELCOME): State.OPEN,
        (State.DECIDING, m.REFUSED): State.CLOSED,
        **_in_open,
        (State.OPEN, m.GOODBYE): State.LEAVING,
        (State.LEFT, m.GOODBYE): State.CLOSED,
    },
}

FIRST: Final = {Side.DIALLER: State.START, Side.LISTENER: State.AWAIT_HELLO}

#: States in which the other side has proved its identity.
TRUSTED: Final = frozenset({State.OPEN, State.LEAVING, State.LEFT})


def after_receiving(side: Side, state: State, number: int) -> State:
    """Return the state that follows this message from the other side; RemoteProtocolError if none does."""
    if state is State.OPEN and number in _OPEN:
        return state
    following = RECEIVING[side].get((state, number))
    if following is None:
        raise RemoteProtocolError(
            f"{m.name_of(number)} came while this side, the {side.value}, was in state '{state.value}'"
        )
    return following


def after_sending(side: Side, state: State, number: int) -> State:
    """Return the state that follows this message of ours; LocalProtocolError if none does."""
    if state is State.OPEN and number in _OPEN:
        return state
    following = SENDING[side].get((state, number))
    if following is None:
        raise LocalProtocolError(
            f"{m.name_of(number)} cannot be sent by the {side.value} in state '{state.value}'"
        )
    return following


__all__ = ["FIRST", "RECEIVING", "SENDING", "TRUSTED", "Side", "State", "after_receiving", "after_sending"]
