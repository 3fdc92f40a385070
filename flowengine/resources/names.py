"""The container and the name that a node gives to its resource.

>>> resource_name(b"", b"", "weights")
('localhost', 'weights')
>>> resource_name(b"ps", b"shared", "weights")
('ps', 'shared')
"""

from __future__ import annotations

import functools
import re
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.container import DEFAULT_CONTAINER

_CONTAINER: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./-]*\Z")


@functools.lru_cache(maxsize=65536)
def resource_name(container: bytes, shared_name: bytes, node_name: str) -> tuple[str, str]:
    """(container, name) from a node's attributes; `node_name` where no shared name is given.

    Raises InvalidArgumentError for a container with illegal characters, and for a shared name that
    begins with an underscore: those are kept for resources that nobody shares.
    """
    where = container.decode("utf-8", "replace")
    name = shared_name.decode("utf-8", "replace")
    if where and not _CONTAINER.match(where):
        raise InvalidArgumentError(
            f"container contains invalid characters: {where!r} (letters, digits and ._-/ are allowed, "
            "first a letter, digit or dot)"
        )
    if name.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_': {name!r}")
    return where or DEFAULT_CONTAINER, name or node_name
