"""Methods and paths of the protocol, and of Triton's model repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from flowengine.core.errors import InvalidArgumentError
from flowengine.serving.models.names import check_model_name
from flowengine.serving.requests import RequestError

_MODEL: Final = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/(infer|ready))?", re.A)
_REPOSITORY: Final = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
#: {path: (method, what it asks for)}
_FIXED: Final = {
    "/v2": ("GET", "server"),
    "/v2/": ("GET", "server"),
    "/v2/health/live": ("GET", "live"),
    "/v2/health/ready": ("GET", "server_ready"),
    "/v2/repository/index": ("POST", "index"),
}
#: Paths of Triton's other extensions, as they end.
_EXTENSIONS: Final = re.compile(
    r"/v2/(?:models/.*(?:stats|config|trace/setting|generate|generate_stream)|systemsharedmemory.*|"
    r"cudasharedmemory.*|trace/setting|logging|repository/[^/]+/(?:index|models/.*))"
)


@dataclass(frozen=True, slots=True)
class ProtocolRoute:
    """A request of the protocol, as its method and path say.

    what      "infer", "metadata", "ready", "load" or "unload" of a model; "server", "live", "server_ready"
              or "index"
    model     its name; None if it is asked of the server
    version   by number; None for the latest
    """

    what: str
    model: str | None = None
    version: int | None = None


def route(method: str, path: str) -> ProtocolRoute:
    """Read a method and a path, as it stands in the request, without its query.

    Raises RequestError: 404 for paths of nothing, 405 for another method, 400 for versions that are no
    numbers and names with `/` or `..`.

    >>> from flowengine.serving.v2.routes import route
    >>> route("POST", "/v2/models/digits/versions/2/infer")
    ProtocolRoute(what='infer', model='digits', version=2)
    """
    if path in _FIXED:
        wanted, what = _FIXED[path]
        _check_method(method, wanted, path)
        return ProtocolRoute(what)
    found = _MODEL.fullmatch(path)
    if found is not None:
        name, number, what = found.groups()
        _check_method(method, "POST" if what == "infer" else "GET", path)
        return ProtocolRoute(what or "metadata", _name(name), None if number is None else _number(number))
    controlled = _REPOSITORY.fullmatch(path)
    if controlled is not None:
        _check_method(method, "POST", path)
        return ProtocolRoute(controlled[2], _name(controlled[1]))
    if _EXTENSIONS.fullmatch(path):
        raise RequestError(
            404, f"there is nothing at {path[:200]}: this extension of Triton's is not supported"
        )
    raise RequestError(404, f"there is nothing at {path[:200]}: models are at /v2/models/NAME")


def _check_method(method: str, wanted: str, path: str) -> None:
    if method != wanted and not (wanted == "GET" and method == "HEAD"):
        raise RequestError(405, f"Method Not Allowed: {path[:200]} takes {wanted}")


def _name(quoted: str) -> str:
    name = unquote(quoted)
    try:
        check_model_name(name)
    except InvalidArgumentError as error:
        raise RequestError(400, error.message) from None
    return name


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 30 or int(text) >= 2**63:
        raise RequestError(400, f"unexpected model version {text[:40]!r}: versions are numbers")
    return int(text)


__all__ = ["ProtocolRoute", "route"]
