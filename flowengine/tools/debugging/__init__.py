"""`fe.debug`: look at a step while it runs, node by node.

>>> graph = fe.Graph()
>>> x = graph.placeholder("float32", [2], name="x")
>>> y = fe.exp(fe.log(x, name="log"), name="exp")
>>> async def main():
...     async with fe.Session(graph) as session, fe.debug.Stepper(session, y, {x: [1.0, 2.0]}) as stepper:
...         print(stepper.node.name, stepper.node.inputs)
...         node = await stepper.step()
...         print(stepper.ran.name, stepper.ran.outputs, "then", node.name)
...         return await stepper.finish()
>>> print(trio.run(main))
log (array([1., 2.], dtype=float32),)
log (array([0.       , 0.6931472], dtype=float32),) then exp
[1. 2.]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from flowengine.core.public_names.missing import missing_name

if TYPE_CHECKING:
    from flowengine.tools.debugging.stepper import Stepper
    from flowengine.tools.debugging.visited import VisitedNode

#: {public name: module}
_PUBLIC: Final[dict[str, str]] = {
    "Stepper": "flowengine.tools.debugging.stepper",
    "VisitedNode": "flowengine.tools.debugging.visited",
}

__all__ = ["Stepper", "VisitedNode"]


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
