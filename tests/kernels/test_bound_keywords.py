"""Functions with keywords given beforehand are called as by `functools.partial`."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.bound import with_keywords


def told(x: int, y: int = 2, *, a: int, b: int = 5, **more: int) -> Any:
    """Return the arguments of the call."""
    return x, y, a, b, more


KEYWORDS = st.dictionaries(st.sampled_from(["y", "a", "b", "c"]), st.integers(0, 9))


@given(KEYWORDS, KEYWORDS, st.lists(st.integers(0, 9), max_size=3))
def test_it_is_called_as_a_partial_is(given: Any, later: Any, positional: list[int]) -> None:
    bound, partial = with_keywords(told, given), functools.partial(told, **given)

    def outcome(function: Any) -> Any:
        try:
            return function(*positional, **later)
        except TypeError:
            return TypeError

    assert outcome(bound) == outcome(partial)


def test_the_function_itself_stays_as_it_is() -> None:
    bound = with_keywords(told, {"a": 1, "b": 7})
    assert bound(0) == (0, 2, 1, 7, {})
    assert told.__kwdefaults__ == {"b": 5}
    with pytest.raises(TypeError, match="missing"):
        told(0)  # type: ignore[call-arg]


def test_what_is_known_of_a_function_is_known_of_the_bound_one() -> None:
    async def waits(x: int, *, a: int) -> int:
        return x + a

    bound = with_keywords(waits, {"a": 1})
    assert inspect.iscoroutinefunction(bound)
    assert (bound.__name__, bound.__module__) == ("waits", __name__)


def test_what_is_no_python_function_is_bound_too() -> None:
    assert with_keywords(int, {"base": 2})("101") == 5
    assert with_keywords(told, {}) is told
