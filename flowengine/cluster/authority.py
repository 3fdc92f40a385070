"""A cluster's own certificate authority, which creates certificates and renews them before they expire.

Keys are of the curve P-256. A task's certificate is valid for the host of its address, for listening and for
dialling; a client's only for dialling, so that no client can pass for a task. Certificates are valid for a
year, the authority's own for ten. The same key signs the authority's next certificate, so a peer that has
either one trusts both.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from flowengine.cluster.certificates import (
    AUTHORITY,
    AUTHORITY_KEY,
    SUFFIX,
    task_certificate,
)
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.files.secrets import check_folder, make_folder, read_secret, replace, write_new

CERTIFICATE_DAYS: Final = 365
AUTHORITY_DAYS: Final = 3650
#: The authority's certificate is renewed together with the others if it is valid for less than this.
_AUTHORITY_DAYS_LEFT: Final = 2 * CERTIFICATE_DAYS
#: Clocks of machines differ: a certificate is valid from this long before its creation.
_EARLIER: Final = datetime.timedelta(hours=1)


def _x509() -> Any:
    """Return the library that writes certificates.

    Raises InvalidArgumentError that says how to install it.
    """
    try:
        from cryptography import x509
    except ImportError:
        raise InvalidArgumentError(
            "certificates are made by the package cryptography, the extra tls: pip install cryptography"
        ) from None
    return x509


class Authority:
    """The authority of one cluster: its key, its certificate, and the time of signing."""

    def __init__(self, cluster: str, key: Any, *, now: datetime.datetime) -> None:
        self._x509 = _x509()
        self._cluster = cluster
        self._key = key
        self._now = now
        self._name = self._named(f"authority of {cluster}")

    @classmethod
    def new(cls, cluster: str, *, now: datetime.datetime) -> Authority:
        """Create an authority with a key of its own."""
        _x509()
        return cls(cluster, _new_key(), now=now)

    @classmethod
    def read(cls, folder: Path, cluster: str, *, now: datetime.datetime) -> Authority:
        """Read the authority of a folder.

        NotFoundError without its key, PermissionDeniedError if others can read it.
        """
        _x509()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        path = folder / AUTHORITY_KEY
        if not path.exists():
            raise NotFoundError(
                f"there is no {path}: certificates are renewed where the cluster's authority has its key"
            )
        try:
            key = load_pem_private_key(read_secret(path), None)
        except ValueError as error:
            raise InvalidArgumentError(f"{path} holds no key: {error}") from None
        return cls(cluster, key, now=now)

    def key_pem(self) -> bytes:
        """Return the authority's key in the form of a file."""
        return _key_pem(self._key)

    def certificate_pem(self) -> bytes:
        """Return the authority's own certificate, signed by itself, for ten years from now."""
        x509 = self._x509
        usage = self._usage(key_cert_sign=True, crl_sign=True)
        builder = self._builder(self._name, self._key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return self._signed(builder.add_extension(usage, critical=True))

    def identity_pem(self, name: str, hosts: Iterable[str]) -> bytes:
        """Create a key and a certificate for it, for a year; without hosts, it is for dialling only."""
        x509, key = self._x509, _new_key()
        oids = x509.oid.ExtendedKeyUsageOID
        uses = [oids.CLIENT_AUTH]
        builder = self._builder(self._named(name), key.public_key(), CERTIFICATE_DAYS)
        hosts = list(hosts)
        if hosts:
            uses.append(oids.SERVER_AUTH)
            names = x509.SubjectAlternativeName([self._general_name(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(self._usage(digital_signature=True), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        return _key_pem(key) + self._signed(builder)

    def _named(self, name: str) -> Any:
        oids = self._x509.oid.NameOID
        attribute = self._x509.NameAttribute
        # X.509 limits a name to 64 characters.
        return self._x509.Name(
            [attribute(oids.ORGANIZATION_NAME, self._cluster[:64]), attribute(oids.COMMON_NAME, name[:64])]
        )

    def _general_name(self, host: str) -> Any:
        host = host.strip("[]")
        try:
            return self._x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            # Certificates contain host names in the form that DNS uses.
            return self._x509.DNSName(host.encode("idna").decode("ascii"))

    def _usage(self, **granted: bool) -> Any:
        names = (
            "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
            "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
        )  # fmt: skip
        return self._x509.KeyUsage(**{name: granted.get(name, False) for name in names})

    def _builder(self, subject: Any, public_key: Any, days: int) -> Any:
        x509 = self._x509
        own = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _EARLIER)
            .not_valid_after(self._now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )

    def _signed(self, builder: Any) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding

        pem: bytes = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        return pem


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _identities(cluster: ClusterSpec, clients: Iterable[str]) -> dict[str, list[str]]:
    """Return {name of a certificate: its hosts}. Raises InvalidArgumentError for a name that is taken."""
    found: dict[str, list[str]] = {}
    for job, tasks in cluster.jobs.items():
        for number, address in tasks.items():
            found[task_certificate(job, number)] = [address.rpartition(":")[0]]
    for client in clients:
        if client in found or f"{client}{SUFFIX}" == AUTHORITY or not client.isidentifier():
            raise InvalidArgumentError(
                f"{client!r} is no name for a client: it is letters, digits and '_', unlike any other's"
            )
        found[client] = []
    return found


def found_authority(
    folder: Path, cluster: ClusterSpec, clients: Iterable[str], *, now: datetime.datetime | None = None
) -> list[Path]:
    """Write an authority and the certificates of all tasks and clients into a new folder; return the files.

    Raises InvalidArgumentError if `cryptography` is not installed or a client's name is invalid, and
    AlreadyExistsError if a file exists.
    """
    authority = Authority.new(cluster.name, now=now or _now())
    texts = {
        f"{name}{SUFFIX}": authority.identity_pem(name, hosts)
        for name, hosts in _identities(cluster, clients).items()
    }
    texts = {AUTHORITY_KEY: authority.key_pem(), AUTHORITY: authority.certificate_pem(), **texts}
    make_folder(folder)
    written: list[Path] = []
    try:
        for name, text in texts.items():
            write_new(folder / name, text, mode=0o644 if name == AUTHORITY else 0o600)
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink()
        raise
    return written


def renew_certificates(
    folder: Path, cluster: ClusterSpec, clients: Iterable[str] = (), *, now: datetime.datetime | None = None
) -> list[Path]:
    """Replace all certificates of a folder by new ones; return the files. Each file is replaced as a whole.

    clients   additional clients, which have no certificate yet

    If the authority's own certificate is valid for less than two years, it is renewed, too, with the same
    key. Raises NotFoundError if the folder or the authority's key does not exist, PermissionDeniedError if
    others can read or write here.
    """
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder} of certificates to be renewed")
    check_folder(folder)
    now = now or _now()
    authority = Authority.read(folder, cluster.name, now=now)
    tasks = _identities(cluster, ())
    there = {path.stem for path in folder.glob(f"*{SUFFIX}") if path.name != AUTHORITY} - tasks.keys()
    # The file of a task that has left the cluster has no client's name, and stays unchanged.
    identities = _identities(cluster, {*filter(str.isidentifier, there), *clients})
    texts = {
        folder / f"{name}{SUFFIX}": authority.identity_pem(name, hosts) for name, hosts in identities.items()
    }
    if _days_left(folder / AUTHORITY, now) < _AUTHORITY_DAYS_LEFT:
        replace(folder / AUTHORITY, authority.certificate_pem(), mode=0o644)
    for path, text in texts.items():
        replace(path, text)
    return list(texts)


def _days_left(path: Path, now: datetime.datetime) -> float:
    """Return how long a certificate is valid.

    Raises InvalidArgumentError for a file that is not a certificate.
    """
    x509 = _x509()
    try:
        end: datetime.datetime = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path} holds no certificate: {error}") from None
    return (end - now).total_seconds() / 86_400


__all__ = ["AUTHORITY_DAYS", "CERTIFICATE_DAYS", "Authority", "found_authority", "renew_certificates"]
