"""The partitions of a step that wait for each other: whether all of them sleep."""

from __future__ import annotations

from typing import cast

import pytest

from flowengine.runtime.receives import Group, JointGroup, Receives


@pytest.mark.parametrize("kind", [Group, JointGroup])
def test_a_group_sleeps_when_all_have_begun_and_nobody_has_work(kind: type[Group]) -> None:
    class Partition:
        def places(self) -> list[object]:
            return []

    one, other = (cast(Receives, Partition()) for _ in range(2))
    group = kind()
    assert group.is_asleep is False
    group.join(one)
    group.join(other)
    assert group.is_asleep is False
    group.sleeps(one)
    assert group.is_asleep is False
    group.sleeps(other)
    assert group.is_asleep is True
    group.has_work(one)
    assert group.is_asleep is False
    group.leave(one, failed=False)
    assert group.is_asleep is True
