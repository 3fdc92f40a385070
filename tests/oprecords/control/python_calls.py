"""Calls of Python functions."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "what they compute is a function of the program: tests/graphs": """
        PyFunc PyFuncStateless
    """,
}
