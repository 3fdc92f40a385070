"""uvicorn with the signals of a server: the first SIGTERM or SIGINT drains, a second one ends at once."""

from __future__ import annotations

import logging
import os
from types import FrameType
from typing import Any, Final

import uvicorn

from flowengine.serving.application import ServingApplication

logger: Final = logging.getLogger("flowengine.serving")


class DrainingServer(uvicorn.Server):
    """A uvicorn server whose application drains before connections are closed.

    application   says no to readiness from the first signal on
    """

    def __init__(self, config: uvicorn.Config, application: ServingApplication) -> None:
        super().__init__(config)
        self._application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; the second signal ends the process."""
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        self._application.manager.is_draining = True
        logger.info("draining for up to %g s: a second signal ends at once", self._application.drain_seconds)


def run(application: ServingApplication, *, host: str, port: int, **options: Any) -> None:
    """Serve an application until a signal ends it.

    options   of `uvicorn.Config`: certificates, the most connections
    """
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=int(application.drain_seconds) + 1,
        server_header=False,
        **options,
    )
    DrainingServer(config, application).run()


__all__ = ["DrainingServer", "run"]
