"""How hard the suite tries: a share of the drawn cases in each run, all of them at night.

`FLOWENGINE_TEST_PROFILE` is `ci` (the default; the same cases every time) or `nightly`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from typing import Final, TypeVar

_Case = TypeVar("_Case")

PROFILE: Final = os.environ.get("FLOWENGINE_TEST_PROFILE", "ci")
IS_NIGHTLY: Final = PROFILE == "nightly"
#: One in so many drawn cases is played in a usual run, where the test doesn't name another part.
ONE_IN: Final = 5


def examples(count: int, one_in: int = ONE_IN) -> int:
    """Return how many of `count` examples to play: all at night, else one in `one_in`, but at least five."""
    return count if IS_NIGHTLY else min(count, max(count // one_in, 5))


def share(cases: Iterable[_Case], one_in: int) -> list[_Case]:
    """Return all cases at night, else about one in `one_in`.

    A checksum of a case's text chooses it: a new case does not change which of the others are played.
    """
    return [case for case in cases if IS_NIGHTLY or zlib.crc32(str(case).encode()) % one_in == 0]


__all__ = ["IS_NIGHTLY", "PROFILE", "examples", "share"]
