"""Steps that are over everywhere are forgotten, told one by one or as ranges."""

from __future__ import annotations

import pytest

import flowengine as fe
from flowengine.cluster.ids import to_ranges
from flowengine.transport.wire.identity import new_key


@pytest.mark.parametrize("numbers", [[], [7], [7, 8, 9], [3, 7, 8, 9, 11]])
def test_each_step_that_is_told_of_is_ended_once(numbers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    server = fe.Server(fe.ClusterSpec.of({"worker": ["127.0.0.1:1"]}), "worker", 0, key=new_key())
    ended: list[int] = []
    monkeypatch.setattr(server.worker.exchange, "end_step", ended.append)
    server.worker.end_steps(to_ranges(numbers))
    assert ended == numbers
