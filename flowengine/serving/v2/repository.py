"""Triton's model repository: the bodies of its requests, and the index of models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.serving.models.manager import ServedModel
from flowengine.serving.models.versions import ServedVersion, VersionState, load_failure
from flowengine.serving.text.reading import reading
from flowengine.serving.v2.parameters import parameters_of

#: {state of a version: its name in the index}
_STATES: Final = {
    VersionState.START: "LOADING",
    VersionState.LOADING: "LOADING",
    VersionState.AVAILABLE: "READY",
    VersionState.UNLOADING: "UNLOADING",
    VersionState.END: "UNAVAILABLE",
}


class RepositoryRequest(NamedTuple):
    """A request for the index, or for loading or unloading a model.

    ready_only   whether the index lists only what answers
    """

    ready_only: bool = False


def read_repository_request(what: str, body: bytes) -> Pieces[RepositoryRequest]:
    """Read the body of a request, which may be empty.

    what   "index", "load" or "unload"

    Raises InvalidArgumentError for anything else than its fields, and for parameters that would change how a
    model is loaded.
    """
    document = (yield from reading(body, whole=True)) if body.strip() else {}
    if not isinstance(document, dict):
        raise InvalidArgumentError("the request is no object of JSON")
    if what == "index":
        ready = document.get("ready", False)
        if not isinstance(ready, bool):
            raise InvalidArgumentError("Unable to parse 'ready': it is no boolean")
        return RepositoryRequest(ready)
    parameters = parameters_of(document, "the request")
    if what == "load" and parameters:
        raise InvalidArgumentError(
            f"the parameter {next(iter(parameters))[:100]!r} is not supported: models are loaded as their "
            "files are"
        )
    if not isinstance(parameters.get("unload_dependents", False), bool):
        raise InvalidArgumentError("Unable to parse 'unload_dependents': it is no boolean")
    return RepositoryRequest()


def write_index(models: Iterable[ServedModel], *, ready_only: bool) -> bytes:
    """Write the index: each version of each model with its state; of models without versions the name."""
    entries: list[dict[str, Any]] = []
    for model in sorted(models, key=lambda each: each.settings.name):
        name = model.settings.name
        for _, version in sorted(model.versions.items()):
            if version.state is VersionState.AVAILABLE or not ready_only:
                entries.append(_entry(name, version))
        if not model.versions and not ready_only:
            entries.append({"name": name, "state": "UNAVAILABLE", "reason": ""})
    return json.dumps(entries, ensure_ascii=False).encode() + b"\n"


def _entry(name: str, version: ServedVersion) -> dict[str, Any]:
    return {
        "name": name,
        "version": str(version.number),
        "state": _STATES[version.state],
        "reason": _reason(version),
    }


def _reason(version: ServedVersion) -> str:
    if version.error is not None:
        return load_failure(version.error)
    return "unloaded" if version.state is VersionState.END else ""


__all__ = ["RepositoryRequest", "read_repository_request", "write_index"]
