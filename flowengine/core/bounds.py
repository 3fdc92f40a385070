"""The bounds of a box for a stranger's graph: what it may take, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError

#: What a box is made of: bounds on what is taken, Landlock for files, seccomp for system calls.
LEVELS: Final = ("limits", "landlock", "seccomp")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The bounds of one box. Sizes in bytes; see `Config.sandbox`, which makes one.

    memory_bytes    all that the graph's values may take
    seconds         what a step may take, by the clock and, for each of `cores`, of the processor
    read, write     files and folders that the graph's ops may read, and those that they may write as well
    write_bytes     how much a process may write in all, and so the largest file
    require         the levels that must be there, of `LEVELS`
    exec_memory     whether memory may be made executable, which oneDNN needs; False computes with NumPy alone
    cores           how many processors a step may keep busy
    init            nodes that are run whenever a process has begun anew
    imports         modules of the program that are imported before the process locks itself in
    trusted_graph   whether a graph made in this process may be given
    spare           whether a process is kept ready beside the one that runs, for whoever needs one like it
    """

    memory_bytes: int
    seconds: float
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    write_bytes: int = 0
    require: tuple[str, ...] = LEVELS
    exec_memory: bool = True
    cores: int = 1
    init: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    trusted_graph: bool = False
    spare: bool = True

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError naming the bound that cannot be one."""
        _check_number("memory_bytes", self.memory_bytes, int, least=1)
        _check_number("seconds", self.seconds, (int, float), least=1e-3)
        _check_number("write_bytes", self.write_bytes, int, least=0)
        _check_number("cores", self.cores, int, least=1)
        unknown = sorted(set(self.require) - set(LEVELS))
        if unknown:
            raise InvalidArgumentError(
                f"a sandbox cannot require {', '.join(map(repr, unknown))}: it has {', '.join(LEVELS)}"
            )
        if self.write and not self.write_bytes:
            raise InvalidArgumentError("a sandbox that may write needs write_bytes: how large a file may be")


def _check_number(name: str, value: Any, kinds: Any, *, least: float) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value < float("inf"):
        raise InvalidArgumentError(f"a sandbox's {name} is {value!r}: it must be a number, {least:g} or more")


def texts(values: str | Path | Sequence[str | Path], what: str) -> tuple[str, ...]:
    """One text or path, or several, as a tuple of texts. Raises InvalidArgumentError for anything else."""
    if isinstance(values, str | Path):
        values = (values,)
    if not all(isinstance(each, str | Path) for each in values):
        raise InvalidArgumentError(f"a sandbox's {what} is {values!r}: it must be names")
    return tuple(map(str, values))


def roots(paths: str | Path | Sequence[str | Path], what: str) -> tuple[str, ...]:
    """Files and folders by their whole paths. Raises InvalidArgumentError for one that is not there."""
    found = tuple(str(Path(each).resolve()) for each in texts(paths, what))
    for each in found:
        if not Path(each).exists():
            raise InvalidArgumentError(f"a sandbox may {what} {each}, but there is no such file or folder")
    return found


__all__ = ["LEVELS", "Sandbox", "roots", "texts"]
