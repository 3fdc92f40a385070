"""Tools for tests of ops, kernels and graphs: those of this package, and your own.

>>> from flowengine import testing
>>> outputs = testing.check_kernel("AddV2", np.float32([1, 2]), np.float32(3), expected=np.float32([4, 5]))
>>> graph = fe.Graph()
>>> x = graph.placeholder("float64", [2], name="x")
>>> y = fe.reduce_sum(x * x, name="y")
>>> testing.check_gradient(y, x, {x: np.array([1.0, 2.0])}) < 1e-5
True
>>> [value.tolist() for value in testing.evaluate(graph, ["y:0"], {"x:0": [1.0, 2.0]})]
[5.0]
>>> drawn = testing.graph("A1 -> B2 -> C3")
>>> len(testing.as_text(drawn).splitlines())
3
>>> testing.same_up_to_names(drawn, testing.graph("A4 -> B5 -> C6"))
True
>>> small = graph.constant(2.0)
>>> [branch] = testing.conditional(graph, small > 1.0, lambda v: [v], lambda v: [-v], [small])
>>> [count] = testing.while_loop(graph, lambda n: n < 5.0, lambda n: [n + 1.0], [small])
>>> [value.tolist() for value in testing.evaluate(graph, [branch.name, count.name])]
[2.0, 5.0]

`flowengine.testing.strategies` needs Hypothesis, and so does `flowengine.testing.simulation` if its worlds
are drawn; the extra `testing` installs it. Nothing else here needs more than the package itself.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Final as _Final

from flowengine.core.public_names.missing import missing_name as _missing_name

if TYPE_CHECKING:
    from flowengine.testing.control import conditional, while_loop
    from flowengine.testing.gradients import check_gradient
    from flowengine.testing.graphs import as_text, graph, same_up_to_names
    from flowengine.testing.kits import check_kernel
    from flowengine.testing.reference import evaluate
    from flowengine.testing.rendezvous import check_rendezvous
    from flowengine.testing.streams import check_byte_stream

#: {public name: the module that has it}
_PUBLIC: _Final = {
    "as_text": "graphs",
    "check_byte_stream": "streams",
    "check_gradient": "gradients",
    "check_kernel": "kits",
    "check_rendezvous": "rendezvous",
    "conditional": "control",
    "evaluate": "reference",
    "graph": "graphs",
    "same_up_to_names": "graphs",
    "while_loop": "control",
}

__all__ = [
    "as_text",
    "check_byte_stream",
    "check_gradient",
    "check_kernel",
    "check_rendezvous",
    "conditional",
    "evaluate",
    "graph",
    "same_up_to_names",
    "while_loop",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        module = _PUBLIC.get(name)
        if module is None:
            raise _missing_name(__name__, name, __all__)
        value = getattr(_importlib.import_module(f"flowengine.testing.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names only."""
    return sorted(__all__)
