"""The certificates that one side shows and trusts under TLS: the only maker of `ssl` contexts.

Both sides show a certificate, and trust those that the cluster's own authority has signed, never those of the
system's authorities. The listener's certificate must contain the name or address that was dialled. TLS 1.3
only.

The files are read again when they have changed, so a running task uses renewed certificates for the next
connection; open connections continue.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.files.secrets import read_secret
from flowengine.transport.streams.records import TlsRecords

logger: Final = logging.getLogger("flowengine.transport")

#: A certificate causes a warning, once a day, for this long before it expires.
WARNED_SECONDS: Final = 30 * 86_400.0
_DAY_SECONDS: Final = 86_400.0
#: The identity of a certificate's files: changed ones differ in time, size or place.
_Stamp: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class _Contexts:
    """The TLS contexts made from the files: for dialling, for listening, and the time at which they end."""

    connecting: ssl.SSLContext
    listening: ssl.SSLContext
    ends_at: float
    stamp: _Stamp
    warned_at: float = 0.0


@dataclass(eq=False)
class Certificates:
    """One side's certificates, as PEM files.

    certificate     of this side, with the chain up to the authority
    private_key     the key of that certificate; it may be in the same file, and only its owner may read it
    authority       the authority that must have signed the other side's certificate: the cluster's own
    """

    certificate: str | os.PathLike[str]
    private_key: str | os.PathLike[str]
    authority: str | os.PathLike[str]
    _contexts: _Contexts | None = field(default=None, init=False, repr=False)

    def connecting(self) -> ssl.SSLContext:
        """Return the context for dialling.

        Raises InvalidArgumentError for unusable files, PermissionDeniedError for a key that others can read.
        If the files were usable before, it warns instead, and keeps the old contents.
        """
        return self._current().connecting

    def listening(self) -> ssl.SSLContext:
        """Return the context for listening; as `connecting`."""
        return self._current().listening

    def _current(self) -> _Contexts:
        held, stamp = self._contexts, self._stamp()
        if held is None:
            held = self._contexts = self._read(stamp)
        elif held.stamp != stamp:
            try:
                held = self._contexts = self._read(stamp)
            except OpError as error:
                held.stamp = stamp
                logger.warning("%s; the former certificates stay in use", error.message)
        self._warn(held)
        return held

    def _warn(self, held: _Contexts) -> None:
        now = time.time()
        if held.ends_at - now < WARNED_SECONDS and now - held.warned_at >= _DAY_SECONDS:
            held.warned_at = now
            end = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(held.ends_at))
            logger.warning(
                "the certificate %s ends at %s: `flowengine cluster new FOLDER --renew` makes new ones",
                self.certificate,
                end,
            )

    def _stamp(self) -> _Stamp:
        found = []
        for each in (self.certificate, self.private_key, self.authority):
            try:
                status = os.stat(each)
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)

    def _read(self, stamp: _Stamp) -> _Contexts:
        if Path(self.private_key).exists():
            read_secret(os.fspath(self.private_key))
        try:
            connecting = self._context(ssl.PROTOCOL_TLS_CLIENT)
            listening = self._context(ssl.PROTOCOL_TLS_SERVER)
            ends_at = _end_of_own(connecting, listening)
        except ssl.SSLCertVerificationError as error:
            raise InvalidArgumentError(
                f"the certificate {self.certificate} is not valid for {self.authority}: "
                f"{error.verify_message}; `flowengine cluster new FOLDER --renew` makes new ones"
            ) from None
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgumentError(
                f"the certificates {self.certificate}, {self.private_key}, {self.authority} "
                f"cannot be used: {error}"
            ) from None
        return _Contexts(connecting, listening, ends_at, stamp)

    def _context(self, protocol: int) -> ssl.SSLContext:
        # Such a context trusts no other authority: it loads none of the system's, and writes no file of
        # secrets because of a variable in the environment.
        context = ssl.SSLContext(protocol)
        context.sslobject_class = TlsRecords
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=os.fspath(self.authority))
        context.load_cert_chain(os.fspath(self.certificate), os.fspath(self.private_key))
        return context


def _end_of_own(connecting: ssl.SSLContext, listening: ssl.SSLContext) -> float:
    """Return the end of this side's certificate, in seconds since 1970, as a dialler would find it.

    The two contexts shake hands in memory. Raises SSLCertVerificationError if the certificate is invalid.
    """
    to_listener, to_dialler = ssl.MemoryBIO(), ssl.MemoryBIO()
    # A client that only dials shows a certificate that no listener may show.
    connecting.check_hostname, connecting.verify_mode = False, ssl.CERT_NONE
    dialler = connecting.wrap_bio(to_dialler, to_listener)
    connecting.verify_mode, connecting.check_hostname = ssl.CERT_REQUIRED, True
    listener = listening.wrap_bio(to_listener, to_dialler, server_side=True)
    for side in (dialler, listener, dialler, listener):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = listener.getpeercert()
    assert certificate, "the handshake is over, and has checked the certificate"
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))


__all__ = ["WARNED_SECONDS", "Certificates"]
