"""The interval of switching threads is short while it is asked for, and then what it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from flowengine.core.thread_switching import switching_quickly


@pytest.fixture(autouse=True)
def _usual_interval() -> Iterator[None]:
    usual = sys.getswitchinterval()
    yield
    sys.setswitchinterval(usual)


def test_uses_nest() -> None:
    usual = sys.getswitchinterval()
    with switching_quickly():
        assert sys.getswitchinterval() < usual
        with switching_quickly():
            pass
        assert sys.getswitchinterval() < usual
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_it_ends_with_an_error() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ValueError, match="ended"), switching_quickly():
        raise ValueError("ended")
    assert sys.getswitchinterval() == pytest.approx(usual)


@pytest.mark.parametrize("seconds", [1e-5, 0.003])
def test_what_the_program_sets_stays(seconds: float) -> None:
    with switching_quickly():
        sys.setswitchinterval(seconds)
    assert sys.getswitchinterval() == pytest.approx(seconds)
    sys.setswitchinterval(1e-5)
    with switching_quickly():
        assert sys.getswitchinterval() == pytest.approx(1e-5)
    assert sys.getswitchinterval() == pytest.approx(1e-5)
