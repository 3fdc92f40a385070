"""Methods and paths of requests, and the HTTP status of each error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.serving.models.names import check_model_name

_POST: Final = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?:(classify|regress|predict)", re.I | re.A
)
_GET: Final = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(?:/(metadata))?", re.I | re.A
)

#: {code of an error: HTTP status}; any other is 500.
_STATUSES: Final = {
    1: 499,  # cancelled: the client has gone
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    14: 503,
    16: 401,
}


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """A request to a model, as its method and path say.

    what            "predict", "classify", "regress", "status" or "metadata"
    version, label  of the version to ask; None for the latest
    """

    what: str
    model: str
    version: int | None = None
    label: str | None = None


def route(method: str, path: str) -> ModelRoute:
    """Read a method and a path, as it stands in the request, without its query.

    Raises InvalidArgumentError for anything that is not asked of models, and for a name with `/` or `..`.

    >>> from flowengine.serving.v1.routes import route
    >>> route("POST", "/v1/models/digits/versions/2:predict")
    ModelRoute(what='predict', model='digits', version=2, label=None)
    """
    found = {"POST": _POST, "GET": _GET}.get(method, re.compile("(?!)")).fullmatch(path)
    if found is None:
        raise InvalidArgumentError(f"Malformed request: {method} {path[:300]}")
    model, number, label, what = found.groups()
    if not model:
        raise InvalidArgumentError("Missing model name in request.")
    model = unquote(model)
    check_model_name(model)
    version = None
    if number is not None:
        if len(number) > 30 or int(number) >= 2**63:
            raise InvalidArgumentError(f"Failed to convert version: {number[:40]} to numeric.")
        version = int(number)
    return ModelRoute((what or "status").lower(), model, version, None if label is None else unquote(label))


def status_of(error: OpError) -> int:
    """Return the HTTP status of an error.

    >>> from flowengine.serving.v1.routes import status_of
    >>> status_of(fe.errors.NotFoundError("no such model"))
    404
    """
    return _STATUSES.get(error.error_code, 500)


__all__ = ["ModelRoute", "route", "status_of"]
