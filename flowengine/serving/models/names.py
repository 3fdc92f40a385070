"""Names of models: a part of a path in a request, so nothing in one may lead out of it."""

from __future__ import annotations

import re
from typing import Final

from flowengine.core.errors import InvalidArgumentError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+=, -]*")


def check_model_name(name: str, where: str = "") -> None:
    """InvalidArgumentError unless a name begins with a letter or digit, and has no `/`, `..` or `:` in it.

    where   the file or option that has the name, for the message

    >>> from flowengine.serving.models.names import check_model_name
    >>> check_model_name("digits-v2")
    >>> check_model_name("../digits")
    Traceback (most recent call last):
    ...
    flowengine.core.errors.InvalidArgumentError: '../digits' is no name of a model: it ...
    """
    if not _NAME.fullmatch(name) or ".." in name or len(name) > 255:
        before = f"{where}: " if where else ""
        raise InvalidArgumentError(
            f"{before}{name[:300]!r} is no name of a model: it begins with a letter or digit, and has "
            "no '/', ':' or '..' in it"
        )


__all__ = ["check_model_name"]
