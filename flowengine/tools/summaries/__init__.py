"""`fe.summary`: event files, which TensorBoard shows, written without TensorBoard or TensorFlow.

>>> async def main():
...     async with fe.summary.Writer("logs/first") as writer:
...         for step in range(3):
...             writer.add_scalar("loss", 1.0 / (step + 1), step)
>>> trio.run(main)

`tensorboard --logdir logs` then shows the curve. Scripts and notebooks use `fe.blocking.Writer`, asyncio
programs `fe.asyncio.Writer`, with the same calls; a training loop takes a `fe.train.Summaries` hook.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from flowengine.core.public_names.missing import missing_name

if TYPE_CHECKING:
    from flowengine.tools.summaries.writer import Writer

#: {public name: module}
_PUBLIC: Final[dict[str, str]] = {"Writer": "flowengine.tools.summaries.writer"}

__all__ = ["Writer"]


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _PUBLIC:
            raise missing_name(__name__, name, __all__)
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names only."""
    return sorted(__all__)
