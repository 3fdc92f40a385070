"""The folder of a cluster's certificates, and the choice of the one that a task or a client shows.

    tls/                    0700
      authority.pem         the certificate of the cluster's own authority, which all tasks and clients trust
      authority.key         0600, its key: only needed to create certificates, and best kept elsewhere
      worker-0.pem          0600, a task's certificate and its key
      client.pem            0600, a client's

`flowengine.cluster.authority` writes them. A cluster that already has an authority may put its files there
under these names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from flowengine.core.errors import NotFoundError
from flowengine.transport.streams.certificates import Certificates

#: The files of the authority, and the default certificate of a client.
AUTHORITY: Final = "authority.pem"
AUTHORITY_KEY: Final = "authority.key"
CLIENT_CERTIFICATE: Final = "client"
SUFFIX: Final = ".pem"


def task_certificate(job: str, task: int) -> str:
    """Return the name of a task's certificate: "worker-0"."""
    return f"{job}-{task}"


def certificates_in(folder: str | Path, name: str) -> Certificates:
    """Return the certificate to show under this name, and the authority to trust.

    Raises NotFoundError, which names the missing file.
    """
    folder = Path(folder)
    own, authority = folder / f"{name}{SUFFIX}", folder / AUTHORITY
    for each in (own, authority):
        if not each.exists():
            raise NotFoundError(
                f"there is no certificate {each}: `flowengine cluster new --tls` makes a folder of them, "
                "and each machine gets a copy of those that it needs"
            )
    return Certificates(own, own, authority)


__all__ = [
    "AUTHORITY",
    "AUTHORITY_KEY",
    "CLIENT_CERTIFICATE",
    "SUFFIX",
    "certificates_in",
    "task_certificate",
]
