"""Calls of functions that are no part of their step."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {"it calls a function of its graph: tests/resources/data": "RemoteCall"}
