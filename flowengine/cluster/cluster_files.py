"""The files of a new cluster: a list of its tasks, and a key that proves that a peer belongs to it.

    folder/             0700 if it is created here
      cluster.toml      names, addresses and the key's file
      cluster.key       0600, 32 random bytes as hexadecimal digits
      tls/              0700, with TLS: see `certificates`

Every machine of the cluster gets a copy, without the key of the authority and the certificates of others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flowengine.cluster.certificates import CLIENT_CERTIFICATE
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import AlreadyExistsError
from flowengine.core.files.secrets import make_folder, write_new
from flowengine.transport.wire.identity import new_key

FILE: Final = "cluster.toml"
KEY_FILE: Final = "cluster.key"
TLS_FOLDER: Final = "tls"


def found_cluster(
    folder: str | Path,
    jobs: Mapping[str, Any],
    *,
    name: str = "flowengine",
    tls: bool = False,
    clients: Iterable[str] = (CLIENT_CERTIFICATE,),
) -> Path:
    """Write the files of a cluster of these jobs (see `ClusterSpec.of`) and a new key; return the main file.

    tls      whether its tasks use TLS: then an authority and certificates are created, too
    clients  the names of the clients' certificates

    Raises InvalidArgumentError for invalid jobs and names, PermissionDeniedError if others can write in the
    folder, AlreadyExistsError if one of the files exists. Nothing is written then, and nothing is ever
    overwritten.
    """
    folder = Path(folder)
    spec = ClusterSpec.of(jobs, name=name, key_file=KEY_FILE, tls=TLS_FOLDER if tls else "")
    names = (FILE, KEY_FILE, TLS_FOLDER) if tls else (FILE, KEY_FILE)
    there = [str(folder / each) for each in names if os.path.lexists(folder / each)]
    if there:
        raise AlreadyExistsError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already; "
            "name another folder, or take them away"
        )
    make_folder(folder)
    written: list[Path] = []
    try:
        if tls:
            from flowengine.cluster.authority import found_authority

            written += found_authority(folder / TLS_FOLDER, spec, clients)
        for path, text, mode in (
            (folder / KEY_FILE, new_key().hex() + "\n", 0o600),
            (folder / FILE, spec.to_toml(), 0o644),
        ):
            write_new(path, text.encode(), mode=mode)
            written.append(path)
    except BaseException:
        for path in written:
            path.unlink()
        with suppress(OSError):
            (folder / TLS_FOLDER).rmdir()
        raise
    return folder / FILE


__all__ = ["FILE", "KEY_FILE", "TLS_FOLDER", "found_cluster"]
