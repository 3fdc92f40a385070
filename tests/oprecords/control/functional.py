"""Calls of functions of the graph and of Python."""

from __future__ import annotations

from typing import Final

# Calls of functions that are no part of their step.

#: {why they have no record: ops}


# Calls of Python functions.

#: {why they have no record: ops}

EXCUSED: Final = {
    "it calls a function of its graph: tests/resources/data": "RemoteCall",
    "what they compute is a function of the program: tests/graphs": "PyFunc PyFuncStateless",
}
