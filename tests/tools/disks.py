"""A disk that forgets: what every crash may leave of a sequence of writes, syncs, renames and removals.

`Recorder` is a file layer that does everything for real and keeps a list of it. `disks_after` replays such a
list and yields what a machine that loses power then may find.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from flowengine.checkpoint import FileLayer

Call = tuple[Any, ...]


class Recorder(FileLayer):
    """Does everything, and keeps a list of it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def create(self, path: str) -> Any:
        file = super().create(path)
        self.calls.append(("create", path))
        return file

    def write(self, file: Any, data: Any) -> None:
        self.calls.append(("write", file.name, bytes(data)))
        super().write(file, data)

    def sync(self, file: Any) -> None:
        self.calls.append(("sync", file.name))
        super().sync(file)

    def rename(self, source: str, target: str) -> None:
        self.calls.append(("rename", source, target))
        super().rename(source, target)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.calls.append(("remove", path))

    def sync_folder(self, path: str) -> None:
        self.calls.append(("sync_folder", path))
        super().sync_folder(path)


class _File:
    """One file: what was written, and how much of it has been synced."""

    def __init__(self, content: bytes = b"", synced: bool = True) -> None:
        self.writes = [content] if content else []
        self.durable = len(self.writes) if synced else 0

    def contents(self) -> Iterator[bytes]:
        """Yield each possible content: unsynced writes kept, dropped, cut off, or the first one as zeros."""
        safe, loose = self.writes[: self.durable], self.writes[self.durable :]
        yield b"".join(self.writes)
        if loose:
            yield b"".join(safe)
            yield b"".join(safe) + b"".join(loose)[: sum(map(len, loose)) // 2]
            # The later ones reached the disk before the first did.
            yield b"".join(safe) + bytes(len(loose[0])) + b"".join(loose[1:])


class Disk:
    """The names in folders and the files behind them, as written and as durable."""

    def __init__(self, before: dict[str, bytes]) -> None:
        self._files = [_File(content) for content in before.values()]
        self._names = {path: number for number, path in enumerate(before)}
        self._durable = dict(self._names)
        #: Changes of names since the folder was synced: (path, file or None).
        self._loose: list[list[tuple[str, int | None]]] = []

    def do(self, call: Call) -> None:
        kind, path = call[0], call[1]
        if kind == "create":
            self._files.append(_File(synced=False))
            self._change([(path, len(self._files) - 1)])
        elif kind == "write":
            self._files[self._names[path]].writes.append(call[2])
        elif kind == "sync":
            file = self._files[self._names[path]]
            file.durable = len(file.writes)
        elif kind == "rename":
            self._change([(call[2], self._names[path]), (path, None)])
        elif kind == "remove":
            self._change([(path, None)])
        else:
            self._durable, self._loose = dict(self._names), []

    def _change(self, change: list[tuple[str, int | None]]) -> None:
        self._loose.append(change)
        _apply(self._names, change)

    def after_a_crash(self) -> Iterator[dict[str, bytes]]:
        """Yield possible states: of unsynced name changes any prefix, all but one or two, or one alone.

        Files have all of their unsynced content, or each may have lost some.
        """
        loose = self._loose
        kept = {tuple(range(count)) for count in range(len(loose) + 1)}
        for missing in (1, 2):
            kept |= {
                tuple(i for i in range(len(loose)) if i not in gone)
                for gone in combinations(range(len(loose)), missing)
            }
        kept |= {(number,) for number in range(len(loose))}
        for chosen in kept:
            names = dict(self._durable)
            for number in chosen:
                _apply(names, loose[number])
            intact = {path: b"".join(self._files[number].writes) for path, number in names.items()}
            yield intact
            for path, number in names.items():
                for content in self._files[number].contents():
                    if content != intact[path]:
                        yield intact | {path: content}
            least = {path: list(self._files[number].contents()) for path, number in names.items()}
            yield {path: contents[min(1, len(contents) - 1)] for path, contents in least.items()}


def _apply(names: dict[str, int], change: list[tuple[str, int | None]]) -> None:
    for path, number in change:
        if number is None:
            names.pop(path, None)
        else:
            names[path] = number


def disks_after(before: dict[str, bytes], calls: list[Call]) -> Iterator[tuple[int, dict[str, bytes]]]:
    """(how many calls may have returned, {path: content}) for all that a crash may leave, each disk once."""
    disk = Disk(before)
    latest: dict[frozenset[tuple[str, bytes]], int] = {}
    for done in range(len(calls) + 1):
        for found in disk.after_a_crash():
            latest[frozenset(found.items())] = done
        if done < len(calls):
            disk.do(calls[done])
    for content, done in latest.items():
        yield done, dict(content)
