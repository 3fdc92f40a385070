"""uvicorn with the signals of a server: the first SIGTERM or SIGINT drains, a second one ends at once."""

from __future__ import annotations

import logging
import os
from types import FrameType
from typing import Any, Final

from flowengine.serving.application import ServingApplication

logger: Final = logging.getLogger("flowengine.serving")


def run(application: ServingApplication, *, host: str, port: int, **options: Any) -> None:
    """Serve an application until a signal ends it.

    options   of `uvicorn.Config`: certificates, the most connections

    Raises ImportError without uvicorn.
    """
    import uvicorn

    class DrainingServer(uvicorn.Server):
        """A uvicorn server whose application says no to readiness from the first signal on."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Begin to drain; the second signal ends the process."""
            if self.should_exit:
                os._exit(128 + sig)
            self.should_exit = True
            application.manager.is_draining = True
            logger.info("draining for up to %g s: a second signal ends at once", application.drain_seconds)

    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        ws="none",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=int(application.drain_seconds) + 1,
        server_header=False,
        **options,
    )
    DrainingServer(config).run()


__all__ = ["run"]
