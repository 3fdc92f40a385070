"""Philox in CUDA C: which kernel of `sources/random.cuh` draws what, and what it is called with.

The numbers are those of `kernels/common/philox.py`, bit by bit; normal float64 numbers are, but for the last
bits of the logarithm, sine and cosine. How many threads there are changes none.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.launching import KernelLaunch, Launcher, over

_SOURCE: Final = Path(__file__).with_name("sources") / "random.cuh"
_LOW: Final = (1 << 64) - 1
#: Distributions of floats, each over numbers of 0 and 1 or of mean 0 and deviation 1.
DISTRIBUTIONS: Final = ("uniform", "normal", "truncated_normal")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


@lru_cache(maxsize=1)
def source() -> str:
    """The kernels, to be compiled behind `elementwise.prelude()`."""
    return _SOURCE.read_text()


def float_kernel_name(distribution: str, dtype: DType) -> str:
    """The kernel of a distribution; InvalidArgumentError for one, or a type, that there is none for."""
    if distribution not in DISTRIBUTIONS or dtype.name not in _FLOATS:
        raise InvalidArgumentError(
            f"there is no kernel for {distribution} numbers of {dtype.name}: there are "
            f"{', '.join(DISTRIBUTIONS)} of {', '.join(_FLOATS)}"
        )
    return f"{distribution}_{dtype.name}"


def integer_kernel_name(dtype: DType) -> str:
    """The kernel of integers of 32 or 64 bits, signed or not; InvalidArgumentError for other types."""
    if not dtype.is_integer or dtype.size not in (4, 8):
        raise InvalidArgumentError(f"there is no kernel for random integers of {dtype.name}: 32 or 64 bits")
    return f"integers_{8 * dtype.size}"


def numbers(key: int, start: int, count: int) -> tuple[int, ...]:
    """Return the arguments of every kernel behind the address of its result, of 64 bits each.

    key, start   the generator's, and the counter of 128 bits to begin at, as `Generator.reserve` gives them
    count        how many numbers there are
    """
    return key & _LOW, start & _LOW, (start >> 64) & _LOW, count


def integer_numbers(key: int, start: int, count: int, low: int = 0, high: int = 0) -> tuple[int, ...]:
    """The same for integers in [low, high); of all values where both are equal."""
    return *numbers(key, start, count), low & _LOW, (high - low) & _LOW


def _drawn(launcher: Launcher, name: str, count: int, dtype: DType, given: tuple[int, ...]) -> Array:
    result = launcher.empty((count,), dtype.as_numpy_dtype)
    if count:
        # A thread draws at least two numbers at a time.
        threads = over(name, -(-count // 2))
        launcher.launch(KernelLaunch(name, given, threads.blocks, threads.threads), [result])
    return result


def draw(launcher: Launcher, distribution: str, key: int, start: int, count: int, dtype: DType) -> Array:
    """`count` floats of a distribution, those of the function of this name in `kernels/common/philox.py`.

    Raises InvalidArgumentError as `float_kernel_name`.
    """
    name = float_kernel_name(distribution, dtype)
    return _drawn(launcher, name, count, dtype, numbers(key, start, count))


def draw_integers(
    launcher: Launcher, key: int, start: int, count: int, low: int, high: int, dtype: DType
) -> Array:
    """`count` integers in [low, high), of all values where both are equal.

    Raises InvalidArgumentError as `integer_kernel_name`.
    """
    name = integer_kernel_name(dtype)
    return _drawn(launcher, name, count, dtype, integer_numbers(key, start, count, low, high))


__all__ = [
    "DISTRIBUTIONS",
    "draw",
    "draw_integers",
    "float_kernel_name",
    "integer_kernel_name",
    "integer_numbers",
    "numbers",
    "source",
]
