"""The file operations that write a checkpoint, as one small object that tests can replace."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from typing import Any, Final

from flowengine.core.files.access import SYSTEM, Files


class FileLayer:
    """The calls through which everything is written: each is one thing that can be lost in a crash.

    allowed   the files that may be reached, by which these calls are made
    """

    allowed: Files = SYSTEM

    def __init__(self, allowed: Files = SYSTEM) -> None:
        self.allowed = allowed

    def make_folder(self, path: str) -> None:
        """Make a folder where there is none; its parent must exist."""
        self.allowed.make_folder(path)

    def create(self, path: str) -> Any:
        """A new, empty file to write to."""
        return self.allowed.create(path)

    def write(self, file: Any, data: Any) -> None:
        """Append all of `data`."""
        view = memoryview(data)
        while len(view):
            view = view[file.write(view) :]

    def sync(self, file: Any) -> None:
        """Return when all that was written is on the disk."""
        os.fsync(file.fileno())

    def close(self, file: Any) -> None:
        file.close()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it."""
        self.allowed.rename(source, target)

    def remove(self, path: str) -> None:
        self.allowed.remove(path)

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the disk."""
        self.allowed.sync_folder(path)


DISK: Final = FileLayer()


def aside(path: str) -> str:
    """A name beside `path` for what is not complete yet."""
    return f"{path}.tempstate{secrets.randbits(64):d}"


def replace_file(path: str, content: bytes, *, sync: bool, files: FileLayer = DISK) -> None:
    """Make a small file hold this: it has the old content or the new one, whenever a crash comes."""
    temporary = aside(path)
    file = files.create(temporary)
    try:
        try:
            files.write(file, content)
            if sync:
                files.sync(file)
        finally:
            files.close(file)
        files.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove(temporary)
        raise
    if sync:
        files.sync_folder(os.path.dirname(path))


def index_path(prefix: str) -> str:
    """The file that says what a checkpoint holds."""
    return f"{prefix}.index"


def run_path(prefix: str) -> str:
    """Return the path of a training run's notes, kept beside its variables: see `train.recovery`."""
    return f"{prefix}.run"


def data_path(prefix: str, shard: int, total: int) -> str:
    """One of the files with the values."""
    return f"{prefix}.data-{shard:05d}-of-{total:05d}"


def data_files(prefix: str, files: Files = SYSTEM) -> dict[str, int]:
    """The data files that lie under a prefix, and of how many each says it is one."""
    folder, base = os.path.split(prefix)
    pattern = re.compile(re.escape(base) + r"\.data-\d{5,}-of-(\d{5,})")
    try:
        names = files.names(folder)
    except FileNotFoundError:
        return {}
    return {os.path.join(folder, name): int(found[1]) for name in names if (found := pattern.fullmatch(name))}


def checkpoint_prefix(path: str) -> str:
    """The prefix that a path means: itself, or what is left without the ending of one of its files."""
    found = re.fullmatch(r"(.*)\.(?:index|meta|data-\d{5,}-of-\d{5,})", path, re.DOTALL)
    if found is not None and (os.path.isfile(index_path(found[1])) or path.endswith(".meta")):
        return found[1]
    return path


def remove_checkpoint(prefix: str, *, files: FileLayer = DISK) -> None:
    """Remove a checkpoint of either format; the index first: then nobody looks further.

    With it go its MetaGraphDef and what a run noted beside it. What is not there is no error.
    """
    data = sorted(data_files(prefix, files.allowed))
    for path in (index_path(prefix), *data, prefix, f"{prefix}.meta", run_path(prefix)):
        with contextlib.suppress(FileNotFoundError):
            if path != prefix or files.allowed.is_file(path):
                files.remove(path)


def free_total(prefix: str, shards: int, files: Files = SYSTEM) -> int:
    """How many data files to speak of in their names, so that none takes the place of one in use.

    A complete checkpoint under the same prefix stays whole until the new index takes the place of its
    own: the names of its data files are left alone.
    """
    if not files.exists(index_path(prefix)):
        return shards
    taken = set(data_files(prefix, files).values())
    total = shards
    while total in taken:
        total += 1
    return total
