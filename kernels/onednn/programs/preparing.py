"""A cache of objects prepared for shapes, which a process that is a fork clears."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar, cast

from flowengine.kernels.onednn import library as loading
from flowengine.kernels.onednn.library import Library, LibraryError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Work up to which a call stays on its thread. To wake a second one takes 10 to 30 us on an idle machine; on
#: a busy one it may come milliseconds late, and OpenMP, having dealt out the work, waits for it: a training
#: step of a perceptron, three products of 0.1 ms among BLAS's own, takes 0.5 ms, with 50 here 0.75.
ALONE_MICROSECONDS: Final = 200.0
#: The same of layers, which are many in a row: a thread that still looks for work begins at once.
#: Inception-v3 on one image takes 40 ms on two cores, with 200 here 43.
LAYER_ALONE_MICROSECONDS: Final = 50.0
#: Shapes remembered by each kind of kernel.
SHAPES_MAX: Final = 512

_caches: Final[list[Callable[[], None]]] = []


def prepared(
    make: Callable[..., Result],
    work: Callable[Parameters, float],
    alone_microseconds: float = ALONE_MICROSECONDS,
) -> Callable[Parameters, Result | None]:
    """Remember what `make` prepares for its arguments, the `SHAPES_MAX` used last.

    work                estimated microseconds on one core, from the same arguments; `make` is told by the
                        keyword `alone` whether that is too little for more than one
    alone_microseconds  what is too little
    None where the library is missing or has no implementation, which is remembered as well.
    """

    def attempt(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
        library = loading.library()
        if library is None:
            return None
        alone = work(*args, **kwargs) < alone_microseconds
        # What a primitive divides its work by is fixed when it is made.
        threads = library.alone() if alone else 0
        try:
            return make(*args, **kwargs, alone=alone)
        except LibraryError:
            return None
        finally:
            library.together(threads)

    cached = functools.lru_cache(maxsize=SHAPES_MAX)(attempt)
    _caches.append(cached.cache_clear)
    return cast(Callable[Parameters, Result | None], cached)


def required() -> Library:
    """The library, inside what is `prepared`."""
    found = loading.library()
    if found is None:
        raise LibraryError("there is no library")
    return found


def _after_fork() -> None:
    """A child has none of the parent's OpenMP threads, and would wait for them: NumPy does it all."""
    if loading.forget("this process is a fork of one that has used it"):
        for clear in _caches:
            clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
