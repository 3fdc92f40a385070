"""Notes of the requests that sessions read and plan."""

from __future__ import annotations

from typing import Any

import pytest

from flowengine.runtime.planning.preparing import RequestPlanner
from flowengine.runtime.planning.requests import Requests


@pytest.fixture
def plannings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests that are planned."""
    made: list[Any] = []
    preparing = RequestPlanner.preparing

    def counted(self: RequestPlanner, request: Any) -> Any:
        made.append(request.plan_key)
        return preparing(self, request)

    monkeypatch.setattr(RequestPlanner, "preparing", counted)
    return made


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The leaves of the requests that are read."""
    read: list[Any] = []
    reading = Requests.read

    def counted(self: Requests, leaves: Any, feeds: Any, targets: Any) -> Any:
        read.append(leaves)
        return reading(self, leaves, feeds, targets)

    monkeypatch.setattr(Requests, "read", counted)
    return read
