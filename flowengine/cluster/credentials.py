"""Roles in a cluster, the key that proves that a peer belongs to it, and its certificates under TLS."""

from __future__ import annotations

import os
from typing import Final

from flowengine.cluster.certificates import CLIENT_CERTIFICATE, certificates_in
from flowengine.core.errors import InvalidArgumentError, NotFoundError, UnauthenticatedError
from flowengine.core.files.secrets import read_secret
from flowengine.transport.streams.certificates import Certificates
from flowengine.transport.wire.identity import check_key

#: The role of a task, and of a client that only opens sessions.
WORKER: Final = "worker"
CLIENT: Final = "client"
#: The variables that have a cluster's key by default: the key as hexadecimal digits, or the name of its file.
KEY_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY"
KEY_FILE_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY_FILE"
#: The variable that names the folder of its certificates.
TLS_VARIABLE: Final = "FLOWENGINE_CLUSTER_TLS"


def read_key(key_file: str = "") -> bytes | None:
    """Return the cluster's key from this file, else from the environment; None without either.

    Raises NotFoundError for a missing file, PermissionDeniedError for a file that others can read or replace,
    InvalidArgumentError for a key that is too short.
    """
    key_file = key_file or os.environ.get(KEY_FILE_VARIABLE, "")
    if key_file:
        try:
            text = read_secret(key_file).decode("ascii").strip()
        except NotFoundError:
            raise NotFoundError(f"there is no key file {key_file}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"the key file {key_file} cannot be read: {error}") from None
    else:
        text = os.environ.get(KEY_VARIABLE, "").strip()
        if not text:
            return None
    try:
        return check_key(bytes.fromhex(text))
    except ValueError:
        where = key_file or KEY_VARIABLE
        raise InvalidArgumentError(f"{where} does not hold a key in hexadecimal digits") from None


def client_certificates(folder: str, name: str = "") -> Certificates:
    """Return a client's TLS certificates from this folder, else from the one that the environment names.

    Raises UnauthenticatedError if neither is given, NotFoundError for missing files.
    """
    folder = folder or os.environ.get(TLS_VARIABLE, "")
    if not folder:
        raise UnauthenticatedError(
            "this cluster has TLS: name the folder of its certificates as tls in the target, or in "
            f"{TLS_VARIABLE}"
        )
    return certificates_in(folder, name or CLIENT_CERTIFICATE)


__all__ = [
    "CLIENT",
    "KEY_FILE_VARIABLE",
    "KEY_VARIABLE",
    "TLS_VARIABLE",
    "WORKER",
    "client_certificates",
    "read_key",
]
