"""The targets of remote sessions, as URLs.

flow://10.0.0.5:7000
flow://10.0.0.5:7000?cluster=digits&key_file=/run/secrets/cluster.key
flow+tls://10.0.0.5:7000?cluster=digits&tls=/run/secrets/tls
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from flowengine.cluster.credentials import client_certificates
from flowengine.cluster.spec import TLS_SCHEME
from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.streams.certificates import Certificates

_QUERY: Final = frozenset({"certificate", "client", "cluster", "key_file", "tls"})
#: Scheme of a target -> that of its address.
_SCHEMES: Final = {"flow": "tcp", TLS_SCHEME: "tls"}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a remote session.

    address    "tcp://host:port", "tls://host:port" of a target `flow+tls://`
    cluster    the cluster's name
    key_file   "" if the environment has the key
    client     the name of the client that opens sessions there; "" for a unique name. When a client connects
    again under its name, the master closes its older sessions
    tls        the folder of the cluster's certificates; "" if the environment names it
    certificate   the name of the certificate to show; "" for "client"
    """

    address: str
    cluster: str = "flowengine"
    key_file: str = ""
    client: str = ""
    tls: str = ""
    certificate: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `flow://host:port?cluster=...&key_file=...`.

        Raises InvalidArgumentError that names the wrong part.
        """
        scheme, _, rest = text.partition("://")
        place, _, query = rest.partition("?")
        if not place:
            raise InvalidArgumentError(f"{text!r} has no address: write flow://host:port")
        values = parse_qs(query, keep_blank_values=True)
        unknown = sorted(values.keys() - _QUERY)
        if unknown:
            raise InvalidArgumentError(
                f"{text!r}: {', '.join(unknown)} is not understood; there are {', '.join(sorted(_QUERY))}"
            )
        named = {name: each[-1] for name, each in values.items()}
        if scheme != TLS_SCHEME and named.keys() & {"tls", "certificate"}:
            raise InvalidArgumentError(f"{text!r} is a target without TLS: write {TLS_SCHEME}://{rest}")
        return cls(f"{_SCHEMES.get(scheme, 'tcp')}://{place.rstrip('/')}", **named)

    def certificates(self) -> Certificates | None:
        """Return the certificates to show under TLS; None without TLS. Raises as `client_certificates`."""
        is_secured = self.address.startswith("tls://")
        return client_certificates(self.tls, self.certificate) if is_secured else None


__all__ = ["Target"]
