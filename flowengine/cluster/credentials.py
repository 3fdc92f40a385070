"""Roles in a cluster, and the key that proves that a peer belongs to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.transport.wire.identity import check_key

#: The role of a task, and of whoever only opens sessions.
WORKER: Final = "worker"
CLIENT: Final = "client"
#: Where a cluster's key is looked for if it is not given: the key itself, as hexadecimal digits, or a file.
KEY_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY"
KEY_FILE_VARIABLE: Final = "FLOWENGINE_CLUSTER_KEY_FILE"


def read_key(key_file: str = "") -> bytes | None:
    """The cluster's key: from this file, else from the environment; None if nothing says one.

    Raises NotFoundError for a file that is not there, InvalidArgumentError for a key that is too short.
    """
    key_file = key_file or os.environ.get(KEY_FILE_VARIABLE, "")
    if key_file:
        try:
            text = Path(key_file).read_text(encoding="ascii").strip()
        except FileNotFoundError:
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


__all__ = ["CLIENT", "KEY_FILE_VARIABLE", "KEY_VARIABLE", "WORKER", "read_key"]
