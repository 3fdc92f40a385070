"""A cluster's files are made: who its tasks are, and a key that proves that a peer belongs to it.

    folder/             0700 where it is made here
      cluster.toml      names, addresses and the key's file
      cluster.key       0600, 32 random bytes as hexadecimal digits

Every machine of the cluster gets a copy of both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import AlreadyExistsError
from flowengine.transport.wire.identity import new_key

FILE: Final = "cluster.toml"
KEY_FILE: Final = "cluster.key"


def found_cluster(folder: str | Path, jobs: Mapping[str, Any], *, name: str = "flowengine") -> Path:
    """Write the files of a cluster with these jobs (see `ClusterSpec.of`) and a new key; the cluster's file.

    Raises InvalidArgumentError for jobs that cannot be, AlreadyExistsError where one of the files is there:
    then nothing is written, and nothing is ever overwritten.
    """
    folder = Path(folder)
    text = ClusterSpec.of(jobs, name=name, key_file=KEY_FILE).to_toml()
    there = [str(folder / each) for each in (FILE, KEY_FILE) if os.path.lexists(folder / each)]
    if there:
        raise AlreadyExistsError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already; "
            "name another folder, or take them away"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(folder / KEY_FILE, new_key().hex() + "\n", 0o600)
    try:
        _write(folder / FILE, text, 0o644)
    except BaseException:
        (folder / KEY_FILE).unlink()
        raise
    return folder / FILE


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file with this mode from its first byte on; FileExistsError where there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


__all__ = ["FILE", "KEY_FILE", "found_cluster"]
