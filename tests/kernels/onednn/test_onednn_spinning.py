"""How long idle OpenMP threads look for work: the same time on processors whose turns differ."""

from __future__ import annotations

import mmap
import os
import platform
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.onednn import spinning


@given(st.floats(7.5e-9, 150e-9))
def test_turns_are_as_many_as_take_the_same_time(seconds: float) -> None:
    assert spinning.turns(seconds) * seconds == pytest.approx(150e-6, rel=1e-3)


@pytest.mark.parametrize(("seconds", "expected"), [(1e-12, 20_000), (1.0, 1_000), (None, 5_000)])
def test_turns_that_cannot_be_right_are_bounded(seconds: float | None, expected: int) -> None:
    assert spinning.turns(seconds) == expected


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="x86-64 instructions on Linux are timed"
)
def test_a_turn_takes_what_a_pause_takes() -> None:
    seconds = spinning.seconds_of_a_turn()
    if seconds is None:
        pytest.skip("this system does not let a program make instructions of its own")
    assert 0.3e-9 < seconds < 1e-5


def test_where_no_instructions_may_be_made_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> mmap.mmap:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert spinning.seconds_of_a_turn() is None


@pytest.mark.parametrize("other", ["processor", "word"])
def test_other_processors_are_not_given_these_instructions(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> mmap.mmap:
        raise AssertionError("instructions of another processor")

    monkeypatch.setattr(mmap, "mmap", refuse)
    if other == "processor":
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    else:
        monkeypatch.setattr(sys, "maxsize", (1 << 31) - 1)
    assert spinning.seconds_of_a_turn() is None


def test_the_setting_is_there_while_a_library_loads_and_then_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    with spinning.quiet_idle_threads():
        assert 1_000 <= int(os.environ["GOMP_SPINCOUNT"]) <= 20_000
    assert "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")])
def test_a_hosts_own_setting_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for other in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with spinning.quiet_idle_threads():
        assert dict(os.environ) == before
    assert dict(os.environ) == before
