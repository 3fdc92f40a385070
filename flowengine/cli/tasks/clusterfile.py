"""Which cluster a command means, and which of its tasks: what `--cluster` and `--at` may say.

A cluster is a file that is named, that of `FLOWENGINE_CLUSTER`, or `cluster.toml` in this folder.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import USAGE, CommandError

if TYPE_CHECKING:
    from flowengine.cluster.spec import ClusterSpec

#: What a cluster's file is called in its folder.
FILE: Final = "cluster.toml"

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}\Z")


def cluster_of(named: str | None) -> ClusterSpec:
    """The cluster that is meant; CommandError (usage) where none is named and none lies here.

    `named` is a file, or a folder with a `cluster.toml`.
    """
    found = _found(named)
    if found is None:
        raise CommandError(
            f"name the cluster: --cluster FILE, or FLOWENGINE_CLUSTER; there is no {FILE} in this folder",
            USAGE,
        )
    return found


def target_at(place: str) -> str:
    """The target of a session: `flow://...` as it is, HOST:PORT or a task's name with what the cluster says.

    Raises CommandError (usage) for anything else.
    """
    if not place or "://" in place:
        return place
    from flowengine.cluster.local import target_of, target_to

    if place.startswith("/job:"):
        return target_of(cluster_of(None), place)
    if not _ADDRESS.match(place):
        raise CommandError(
            f"--at {place}: write HOST:PORT, a task such as /job:worker/task:0, or flow://HOST:PORT", USAGE
        )
    spec = _found(None)
    return f"flow://{place}" if spec is None else target_to(spec, place)


def _found(named: str | None) -> ClusterSpec | None:
    from flowengine.cluster.local import CLUSTER_VARIABLE
    from flowengine.cluster.spec import ClusterSpec

    path = named or os.environ.get(CLUSTER_VARIABLE)
    if not path:
        return ClusterSpec.from_toml(FILE) if os.path.isfile(FILE) else None
    return ClusterSpec.from_toml(os.path.join(path, FILE) if os.path.isdir(path) else path)
