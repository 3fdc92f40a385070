"""A registry of remote sessions, from the scheme of a target to the opener of sessions there.

    flow://127.0.0.1:7000  ->  the opener registered for "flow"

The room that talks to other processes registers itself here, so that the local session does not import
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError

#: (target, graph, config) -> an object with the session's `run`, `make_callable`, `extend` and `close`.
Opener = Callable[[str, Any, Any], Any]

_openers: Final[dict[str, Opener]] = {}


def register_scheme(scheme: str, opener: Opener) -> None:
    """Open targets `scheme://...` with this; InvalidArgumentError if the scheme is taken."""
    if scheme in _openers:
        raise InvalidArgumentError(f"the target scheme '{scheme}' is registered already")
    _openers[scheme] = opener


def opener_for(target: str) -> Opener:
    """Return the opener for this target; InvalidArgumentError naming the known schemes if there is none."""
    scheme, separator, _ = target.partition("://")
    opener = _openers.get(scheme) if separator else None
    if opener is None:
        known = ", ".join(f"{s}://" for s in sorted(_openers)) or "none in this installation"
        raise InvalidArgumentError(
            f"no session can be opened at target {target!r}: known schemes are {known}; "
            "leave the target empty to run in this process"
        )
    return opener
