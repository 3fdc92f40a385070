"""Identities of the two sides: role, cluster, task and incarnation, and the proof of them.

Both sides hold the cluster's key. Each sends a fresh nonce and then an HMAC-SHA256 over both nonces and its
own identity, under a label that differs between the sides, so that a proof can neither be replayed nor sent
back to its origin. The dialler proves first: a listener reveals nothing, not even the cluster's name, before
it has seen a right proof.

The key proves the identity of a peer. It neither hides nor protects later messages: TLS does.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import NAME_BYTES_MAX, PeerLimits
from flowengine.transport.wire.states import Side

#: Protocol versions that this side speaks.
VERSION_LOWEST: Final = 2
VERSION_HIGHEST: Final = 2

#: Shorter keys can be guessed from a proof that was overheard.
KEY_BYTES_MIN: Final = 16

_LABEL: Final = b"flowengine handshake 1\0"


def new_incarnation() -> int:
    """Return a number for one incarnation of a task: 63 random bits, so that no two are equal."""
    return secrets.randbits(63) | 1


def new_key() -> bytes:
    """Return a new random key for a cluster."""
    return secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that a side claims.

    role            "worker", "client", ...: the role in which it takes part
    cluster         the cluster's name; sides of different clusters refuse each other
    task            "/job:worker/task:1", or the name that a client chose
    incarnation     one incarnation of that task
    """

    role: str
    cluster: str
    task: str
    incarnation: int

    def __post_init__(self) -> None:
        for field in ("role", "cluster", "task"):
            text = getattr(self, field)
            if not text or len(text.encode()) > NAME_BYTES_MAX:
                raise InvalidArgumentError(
                    f"a peer's {field} is a name of 1 to {NAME_BYTES_MAX} bytes, not {text!r}"
                )
        if not 0 < self.incarnation < 1 << 63:
            raise InvalidArgumentError(f"an incarnation is a positive 63-bit number, not {self.incarnation}")

    def __str__(self) -> str:
        return f"{self.role} {self.task} of cluster '{self.cluster}'"


@dataclass(frozen=True, slots=True)
class Statement:
    """An identity with the other data of the handshake."""

    identity: Identity
    limits: PeerLimits
    #: The incarnation that the dialler expects at the other end; 0 for any.
    expected_incarnation: int = 0

    def to_wire(self) -> bytes:
        who = self.identity
        packed: bytes = msgpack.packb(
            [
                who.role,
                who.cluster,
                who.task,
                who.incarnation,
                self.limits.to_wire(),
                self.expected_incarnation,
            ]
        )
        return packed

    @classmethod
    def from_wire(cls, data: bytes) -> Statement:
        """Read a statement; RemoteProtocolError if it is not one."""
        try:
            parts: Any = msgpack.unpackb(data, raw=False, max_ext_len=0)
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
            raise RemoteProtocolError("an identity is not msgpack") from None
        if type(parts) is not list or len(parts) != 6:
            raise RemoteProtocolError("an identity does not have its six parts")
        role, cluster, task, incarnation, limits_list, expected = parts
        limits = PeerLimits.from_wire(limits_list)
        texts_are_right = all(type(text) is str for text in (role, cluster, task))
        numbers_are_right = type(incarnation) is int and type(expected) is int and 0 <= expected < 1 << 63
        if limits is None or not texts_are_right or not numbers_are_right:
            raise RemoteProtocolError("an identity's parts are not what they should be")
        try:
            return cls(Identity(role, cluster, task, incarnation), limits, expected)
        except InvalidArgumentError as error:
            raise RemoteProtocolError(error.message) from None


def check_key(key: bytes) -> bytes:
    """Return the key, if it is long enough; InvalidArgumentError otherwise."""
    if len(key) < KEY_BYTES_MIN:
        raise InvalidArgumentError(
            f"a cluster's key is at least {KEY_BYTES_MIN} random bytes: make one with "
            "flowengine.transport.wire.identity.new_key()"
        )
    return key


def prove(key: bytes, side: Side, transcript: bytes, text: bytes) -> bytes:
    """Return the proof of this side for a text of its own. `transcript` is the data exchanged so far.

    Label, side and transcript have fixed lengths or a terminator, so no two inputs read the same.
    """
    return hmac.new(key, _LABEL + side.value.encode() + b"\0" + transcript + text, hashlib.sha256).digest()


def is_proof(expected: bytes, proof: bytes) -> bool:
    """Return whether two proofs are equal, in a time that does not reveal where they differ."""
    return hmac.compare_digest(expected, proof)


__all__ = ["Identity", "Statement", "check_key", "is_proof", "new_incarnation", "new_key", "prove"]
