"""Which checkpoints stay: a model that looks at all that was ever saved, over drawn runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.train.retention import Direction, KeptCheckpoint, Retention

HOUR = 3600.0


@dataclass
class _Model:
    """Says it as the documentation does: the newest, the best of what is left, one every so many hours."""

    newest: int
    best: int
    direction: Direction
    period: float | None
    boundary: float = 0.0
    alive: list[KeptCheckpoint] = field(default_factory=list)
    for_ever: list[str] = field(default_factory=list)

    def good(self) -> list[KeptCheckpoint]:
        scored = [each for each in self.alive if each.metric is not None]
        numbers = [each for each in scored if not math.isnan(each.metric or 0)]
        sign = 1 if self.direction == "lowest" else -1
        order = sorted(
            numbers, key=lambda each: (sign * (each.metric or 0), -self.alive.index(each))
        )  # of equal ones the newer
        return order + [each for each in reversed(scored) if each not in numbers]

    def save(self, new: KeptCheckpoint) -> list[str]:
        self.alive = [each for each in self.alive if each.prefix != new.prefix] + [new]
        if not self.newest:
            return []
        staying = self.alive[-self.newest :] + self.good()[: self.best]
        removed = []
        for each in [each for each in self.alive if each not in staying]:
            self.alive.remove(each)
            if self.period is not None and each.saved_at > self.boundary + self.period:
                self.boundary += self.period
                self.for_ever.append(each.prefix)
            else:
                removed.append(each.prefix)
        return removed


_METRICS = st.none() | st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, math.inf, -math.inf, math.nan])
_SAVES = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([0.0, 600.0, HOUR, 2 * HOUR, 5 * HOUR]), _METRICS),
    max_size=30,
)


@given(
    _SAVES,
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["lowest", "highest"]),
    st.sampled_from([None, 0.5, 1.0, 3.0]),
)
def test_what_stays_and_what_goes(
    saves: list[tuple[int, float, float | None]],
    newest: int,
    best: int,
    direction: Direction,
    hours: float | None,
) -> None:
    """Prefixes come again, metrics tie and are no numbers, time goes on by nothing or by whole periods."""
    retention = Retention(newest, hours, best, direction, started=0.0)
    model = _Model(newest, best, direction, None if hours is None else hours * HOUR)
    now = 0.0
    for number, later, metric in saves:
        now += later
        new = KeptCheckpoint(f"m-{number}", now, metric)
        assert retention.add(new) == model.save(new)
        assert retention.kept == model.alive
        assert retention.ranked() == model.good()


def test_of_equal_metrics_the_newer_stays() -> None:
    directions: tuple[Direction, ...] = ("lowest", "highest")
    for direction in directions:
        retention = Retention(1, None, 1, direction, 0.0)
        gone = [name for n in range(4) for name in retention.add(KeptCheckpoint(f"m-{n}", n, 0.5))]
        # The newest has the same metric as the one before it, and is the better of them.
        assert gone == ["m-0", "m-1", "m-2"]


def test_periods_do_not_drift() -> None:
    """Every 25 minutes for two days, one to stay each hour: one stays for each hour that has begun."""
    retention = Retention(1, 1.0, 0, "lowest", 0.0)
    gone: set[str] = set()
    minutes = range(25, 48 * 60, 25)
    for minute in minutes:
        gone.update(retention.add(KeptCheckpoint(f"m-{minute}", minute * 60.0)))
    stayed = [minute for minute in minutes[:-1] if f"m-{minute}" not in gone]
    # The first one after each full hour, whatever the minute at which the one before it was saved.
    assert stayed == [next(m for m in minutes if m > 60 * hour) for hour in range(1, len(stayed) + 1)]
    assert len(stayed) == 47


def test_one_prefix_saved_again_counts_once() -> None:
    retention = Retention(2, None, 0, "lowest", 0.0)
    assert retention.add(KeptCheckpoint("a", 1)) == []
    assert retention.add(KeptCheckpoint("b", 2)) == []
    assert retention.add(KeptCheckpoint("b", 3)) == []
    assert [each.prefix for each in retention.kept] == ["a", "b"]
    assert retention.add(KeptCheckpoint("a", 4)) == []
    assert [(each.prefix, each.saved_at) for each in retention.kept] == [("b", 3), ("a", 4)]
    assert retention.add(KeptCheckpoint("c", 5)) == ["b"]


@pytest.mark.parametrize("prefixes", [[], ["a"], ["a", "b", "c"]])
def test_what_an_earlier_run_left_counts(prefixes: list[str]) -> None:
    retention = Retention(2, None, 1, "highest", 0.0)
    retention.recover(prefixes, {"a": 0.9, "z": 1.0}, lambda prefix: float(ord(prefix)))
    assert [each.saved_at for each in retention.kept] == [float(ord(each)) for each in prefixes]
    gone = retention.add(KeptCheckpoint("d", 200.0, 0.1))
    assert gone == (["b"] if len(prefixes) == 3 else [])
