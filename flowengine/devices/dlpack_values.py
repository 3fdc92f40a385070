"""Fed values in a card's memory: arrays of another library, lent by DLPack and not copied.

    await session.run("y:0", {"x:0": torch_tensor_on_the_card})

It is one object of the step until a node on the device takes it; the device then borrows it (`copy_in`).
Other uses, such as a kernel on a CPU, raise an error that says what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError

#: DLDeviceType: memory of the host, pinned by CUDA or not, which NumPy reads.
_HOST: Final = frozenset({1, 3})
#: CUDA's memory, managed memory with it.
CUDA: Final = frozenset({2, 13})


class _AwayError(InvalidArgumentError, AttributeError):
    """The error of reading a value that is on another device."""


class LentValue:
    """An array that another library lends.

    lender   that library's array, with `__dlpack__` and `__dlpack_device__`
    check    raises InvalidArgumentError if the borrowed array has another type or shape than the feed
    nbytes   the bytes of its copy: 0, because it is not copied
    """

    __slots__ = ("_name", "check", "lender")
    nbytes: Final = 0

    def __init__(self, name: str, lender: Any, check: Callable[[Array], Any]) -> None:
        """`name` is that of what it is fed to."""
        self._name = name
        self.lender: Final = lender
        self.check: Final = check

    def __getattr__(self, name: str) -> NoReturn:
        raise self._not_there()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._not_there()

    def fetched(self) -> NoReturn:
        """Somebody fetches what was fed."""
        raise self._not_there()

    def __repr__(self) -> str:
        return f"<LentValue for '{self._name}'>"

    def _not_there(self) -> _AwayError:
        kind, number = self.lender.__dlpack_device__()
        return _AwayError(
            f"'{self._name}' was fed an array in the memory of device {number} of DLPack's type {int(kind)}, "
            "and a node that takes it computes elsewhere: place it on that device, or feed a NumPy array"
        )


def is_lent(value: Any) -> bool:
    """Whether a value is an array of another library in a memory that NumPy does not read."""
    device_of = getattr(type(value), "__dlpack_device__", None)
    return device_of is not None and int(device_of(value)[0]) not in _HOST


__all__ = ["CUDA", "LentValue", "is_lent"]
