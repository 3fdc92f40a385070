"""The collector pauses while a pause lasts, and is afterwards as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from flowengine.core import collector
from flowengine.core.collector import collection_paused


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "_host_freezes", False)
    before = gc.isenabled()
    yield
    gc.enable() if before else gc.disable()


def test_pauses_nest() -> None:
    gc.enable()
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def test_pauses_that_overlap_end_with_the_last() -> None:
    gc.enable()
    first, second = collection_paused(), collection_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


class Link:
    """An object that refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_made_meanwhile_is_old() -> None:
    gc.unfreeze()  # what our own tests have frozen
    gc.enable()
    gc.collect()
    with collection_paused():
        made = [Link() for _ in range(collector.MANY)]
    young = gc.get_objects(generation=0)
    assert not any(isinstance(each, Link) for each in young)
    known = [weakref.ref(link) for link in made]
    del made
    gc.collect()
    assert all(each() is None for each in known), "old is not for ever"


def test_what_a_host_has_frozen_stays_frozen() -> None:
    gc.enable()
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with collection_paused():
            made = [Link() for _ in range(collector.MANY)]
        assert gc.get_freeze_count() >= before - 100 > 0
        assert made
    finally:
        gc.unfreeze()


def test_what_is_frozen_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as there is much of it, milliseconds for 100,000 objects; few new are not worth it."""
    counted: list[int] = []

    def count() -> int:
        counted.append(1)
        return 1

    monkeypatch.setattr(gc, "get_freeze_count", count)
    gc.collect()
    with collection_paused():
        few = [Link() for _ in range(100)]
    assert not counted
    for _ in range(3):
        with collection_paused():
            few += [Link() for _ in range(collector.MANY)]
    assert len(counted) == 1


def test_an_error_ends_the_pause() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="inside"), collection_paused():
        raise ValueError("inside")
    assert gc.isenabled()
