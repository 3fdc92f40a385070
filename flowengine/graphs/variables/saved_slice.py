"""How a checkpoint knows a variable that is a part of a larger one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SavedSlice:
    """Which part of a larger tensor a variable is, in a checkpoint.

    full_name    the name of the whole
    full_shape   its shape; offset, shape are the part's, one number for each dimension
    """

    full_name: str
    full_shape: tuple[int, ...]
    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def spec(self) -> str:
        """The part as savers write it: "4 5 0,2:-" """
        parts = (
            "-" if length == whole else f"{begin},{length}"
            for begin, length, whole in zip(self.offset, self.shape, self.full_shape, strict=True)
        )
        return " ".join([*map(str, self.full_shape), ":".join(parts)])
