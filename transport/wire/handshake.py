"""The first four messages of a connection: they prove identities and agree on a version. Sans-I/O.

    dialler  -> HELLO      lowest version, highest version, nonce
    listener -> CHALLENGE  nonce
    dialler  -> PROOF      statement, HMAC("dialler",  nonces, versions, 0, channel, statement)
    listener -> WELCOME    version, statement, HMAC("listener", nonces, versions, version, channel, statement)
             or REFUSED    reason, HMAC("listener", nonces, versions, 0, channel, "refused" reason)

The channel is the SHA-256 of bytes that distinguish one connection of TLS from another (see
`TlsStream.channel_binding`), and of nothing if the stream is plain.

A statement is read only after its proof was found right. A side that holds the key learns why it is refused
(version, cluster, incarnation), in words that are proved, too; any other gets a REFUSED without a reason.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Callable
from typing import Any, Final

from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
)
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.identity import (
    VERSION_HIGHEST,
    VERSION_LOWEST,
    Statement,
    check_key,
    is_proof,
    prove,
)
from flowengine.transport.wire.states import Side

_VERSIONS: Final = struct.Struct(">HHH")

#: A message of the handshake: its number and its fields.
Answer = tuple[int, tuple[Any, ...]]


class Refusal(Exception):
    """A refusal by this side: `answer` goes to the other side, `error` is raised here."""

    def __init__(self, answer: Answer | None, error: OpError) -> None:
        super().__init__(error.message)
        self.answer = answer
        self.error = error


class Handshake:
    """One side of the handshake. `receive` takes a message and returns the answer.

    channel_binding   bytes that only this connection's stream has, once a message has come over it; both
                      sides put
                      it under their proofs, so that no proof is valid on another connection
    """

    def __init__(
        self,
        side: Side,
        statement: Statement,
        *,
        key: bytes | None,
        is_channel_authenticated: bool,
        address: str,
        channel_binding: Callable[[], bytes] = bytes,
        versions: tuple[int, int] = (VERSION_LOWEST, VERSION_HIGHEST),
    ) -> None:
        if key is None and not is_channel_authenticated:
            raise InvalidArgumentError(
                f"the connection {address} would be open to anybody: give the cluster's key, or use tls://"
            )
        self._side = side
        self._key = None if key is None else check_key(key)
        self._own = statement
        self._own_bytes = statement.to_wire()
        self._nonce = secrets.token_bytes(m.NONCE_BYTES)
        self._other_nonce = b""
        self._lowest, self._highest = versions
        #: The versions that the dialler offered; both sides put them under their proofs.
        self._offered = versions
        self._address = address
        self._channel_binding = channel_binding
        #: The identity and the limits of the other side, once proved.
        self.peer: Statement | None = None
        #: The version that both speak, once agreed.
        self.version = 0

    def first(self) -> Answer:
        """Return the dialler's first message."""
        return m.HELLO, (self._lowest, self._highest, self._nonce)

    def receive(self, number: int, fields: list[Any]) -> Answer | None:
        """Take a message that the table of states allows; Refused or an OpError ends the connection."""
        if number == m.HELLO:
            return self._hello(*fields)
        if number == m.CHALLENGE:
            return self._challenge(*fields)
        if number == m.PROOF:
            return self._proof(*fields)
        if number == m.WELCOME:
            self._welcome(*fields)
            return None
        assert number == m.REFUSED, f"{m.name_of(number)} is no message of the handshake"
        raise self._refused(*fields)

    def _hello(self, lowest: int, highest: int, nonce: bytes) -> Answer:
        if lowest > highest:
            raise RemoteProtocolError(f"HELLO offers the versions {lowest} to {highest}")
        self._offered = lowest, highest
        self._other_nonce = nonce
        return m.CHALLENGE, (self._nonce,)

    def _challenge(self, nonce: bytes) -> Answer:
        self._other_nonce = nonce
        return m.PROOF, (self._own_bytes, self._prove(self._side, 0, self._own_bytes))

    def _proof(self, statement: bytes, proof: bytes) -> Answer:
        if not self._is_proved(Side.DIALLER, 0, statement, proof):
            raise Refusal(
                (m.REFUSED, ("", b"")),
                UnauthenticatedError(f"{self._address} did not prove that it has the cluster's key"),
            )
        peer = Statement.from_wire(statement)
        own = self._own.identity
        lowest, highest = self._offered
        version = min(highest, self._highest)
        reason = ""
        if version < max(lowest, self._lowest):
            reason = (
                f"it speaks protocol versions {lowest} to {highest}, "
                f"{own.task} speaks {self._lowest} to {self._highest}"
            )
        elif peer.identity.cluster != own.cluster:
            reason = f"it belongs to cluster '{peer.identity.cluster}', {own.task} to '{own.cluster}'"
        elif peer.expected_incarnation not in (0, own.incarnation):
            reason = (
                f"{own.task} has restarted: it is incarnation {own.incarnation} now, "
                f"not {peer.expected_incarnation}"
            )
        if reason:
            raise Refusal(
                (m.REFUSED, (reason, self._prove(Side.LISTENER, 0, _refusal(reason)))),
                FailedPreconditionError(f"refused {peer.identity} at {self._address}: {reason}"),
            )
        self.peer, self.version = peer, version
        return m.WELCOME, (version, self._own_bytes, self._prove(Side.LISTENER, version, self._own_bytes))

    def _welcome(self, version: int, statement: bytes, proof: bytes) -> None:
        if not self._is_proved(Side.LISTENER, version, statement, proof):
            raise UnauthenticatedError(
                f"{self._address} did not prove that it has the cluster's key: nothing was sent to it"
            )
        if not self._lowest <= version <= self._highest:
            raise RemoteProtocolError(
                f"{self._address} chose protocol version {version}, which was not offered"
            )
        peer = Statement.from_wire(statement)
        if peer.identity.cluster != self._own.identity.cluster:
            raise FailedPreconditionError(
                f"{self._address} belongs to cluster '{peer.identity.cluster}', "
                f"not to '{self._own.identity.cluster}'"
            )
        self.peer, self.version = peer, version

    def _refused(self, reason: str, proof: bytes) -> OpError:
        # A reason counts only if it is proved: an attacker on the way cannot put words into our errors.
        if reason and self._is_proved(Side.LISTENER, 0, _refusal(reason), proof):
            return FailedPreconditionError(f"{self._address} refused this side: {reason}")
        return UnauthenticatedError(
            f"{self._address} did not accept this side's key: "
            "the two have different keys, or only one of them has a key"
        )

    def _prove(self, side: Side, version: int, text: bytes) -> bytes:
        if self._key is None:
            return b""
        nonces = (self._nonce, self._other_nonce)
        if self._side is Side.LISTENER:
            nonces = nonces[::-1]
        channel = hashlib.sha256(self._channel_binding()).digest()
        transcript = b"".join(nonces) + _VERSIONS.pack(*self._offered, version) + channel
        return prove(self._key, side, transcript, text)

    def _is_proved(self, side: Side, version: int, text: bytes, proof: bytes) -> bool:
        return is_proof(self._prove(side, version, text), proof)


def _refusal(reason: str) -> bytes:
    # A statement is a msgpack array and never begins so.
    return b"refused\0" + reason.encode(errors="replace")


__all__ = ["Handshake", "Refusal"]
