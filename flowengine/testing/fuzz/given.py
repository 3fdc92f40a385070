"""Good inputs that a caller gives, taken in turn, so that each of their groups is damaged equally often."""

from __future__ import annotations

from pathlib import Path


class GivenBases:
    """The files of a folder, `GROUP-NUMBER.pb`: a group is an op.

    The seed says which is meant: the groups in turn, and of each group its files in turn.
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
        return name, paths[turn % len(paths)].read_bytes()


__all__ = ["GivenBases"]
