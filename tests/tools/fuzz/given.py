"""Good inputs that a caller gives, taken in turn, so that each of their groups is damaged equally often."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Of so many turns of a group one is light: of 47 turns, 60,000 calls of 1,264 ops, that makes 16.
_LIGHT: Final = 3


class GivenBases:
    """The files of a folder, `GROUP-NUMBER.pb`: a group is an op.

    The seed says which is meant: the groups in turn, and of each group its files in turn. Each third turn of
    a group is light: its input is changed so little that its arguments are accepted as before.
    """

    def __init__(self, folder: Path) -> None:
        groups: dict[str, list[Path]] = {}
        for path in sorted(folder.iterdir()):
            groups.setdefault(path.stem.rpartition("-")[0], []).append(path)
        if not groups:
            raise FileNotFoundError(f"there is no good input in {folder}")
        self._groups = list(groups.items())

    def __len__(self) -> int:
        return len(self._groups)

    def of(self, seed: int) -> tuple[str, bytes]:
        """The group and the bytes that a seed begins with."""
        turn, place = divmod(seed, len(self._groups))
        name, paths = self._groups[place]
        # Counted apart, as three files would always meet the same third.
        chosen = turn // _LIGHT if self.is_light(seed) else turn
        return name, paths[chosen % len(paths)].read_bytes()

    def is_light(self, seed: int) -> bool:
        """Whether the input of a seed is to be changed lightly."""
        return seed // len(self._groups) % _LIGHT == 0


__all__ = ["GivenBases"]
