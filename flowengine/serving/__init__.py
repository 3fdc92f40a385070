"""Models behind HTTP: an application for ASGI servers, and `flowengine serve`.

`v1/` reads and writes TensorFlow Serving's REST, `v2/` the Open Inference Protocol; neither knows HTTP or
event loops. Loaded models, their versions and batches (`models/`) are one trio program; the application
reaches it under either event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from flowengine.core.public_names.missing import public_module

if TYPE_CHECKING:
    from flowengine.core.config import Config
    from flowengine.serving.application import ServingApplication


def app(
    models: str | os.PathLike[str],
    *,
    max_rows: int | None = None,
    config: Config | None = None,
    timeout_seconds: float | None = None,
    max_body_bytes: int = 64 << 20,
    poll_seconds: float | None = 1.0,
    access_log: Callable[[Mapping[str, Any]], None] | None = None,
    explicit: bool = False,
) -> ServingApplication:
    """Return an ASGI application that serves the models of a folder.

    It speaks TensorFlow Serving's REST (`/v1/...`) and the Open Inference Protocol (`/v2/...`).

    models            a folder of models, each a folder with versions (`digits/1/saved_model.pb`); or one of
                      these models
    max_rows          the rows of concurrent requests are computed together, so many at a time; None for a
                      step of each request
    config            of the sessions: limits, devices, a sandbox
    timeout_seconds   how long an answer may take
    max_body_bytes    most bytes of a request's body
    poll_seconds      how often the folders are looked at for new versions; None for once
    access_log        called with the facts of each request when it has been answered
    explicit          whether models wait until a client loads them, and may be unloaded by clients

    Raises NotFoundError if there is no model. A server runs it (`uvicorn module:name`); mounted in another
    application, give its `lifespan` to that one.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     signatures = {"serving_default": ({"x": x}, {"y": x + x})}
    ...     session.call(fe.saved_model.save, "models/double/1", signatures=signatures)
    >>> application = fe.serving.app("models")
    >>> list(application.manager.models)
    ['double']
    """
    from flowengine.serving.application import ServingApplication
    from flowengine.serving.models.manager import LoadingOptions, ModelManager
    from flowengine.serving.models.settings import RowBatching, models_in
    from flowengine.serving.requests import RequestLimits

    batching = None if max_rows is None else RowBatching(max_rows=max_rows, max_waiting_rows=16 * max_rows)
    manager = ModelManager(
        models_in(models, batching),
        LoadingOptions(config=config),
        poll_seconds=poll_seconds,
        reread=partial(models_in, models, batching) if explicit else None,
        explicit=explicit,
    )
    return ServingApplication(
        manager,
        limits=RequestLimits(body_bytes=max_body_bytes, timeout_seconds=timeout_seconds),
        access_log=access_log,
    )


__all__ = ["app"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
