"""Files as a graph's ops reach them: the calls that there are, and what of them the configuration allows.

    files = files_of("read")                                   everything may be read, nothing written
    files = FileRoots(FileAccess(read=["/data"]))              what lies beneath a folder may be read

Every kernel, checkpoint, reader and writer that runs for a graph opens files through one of these. Errors of
the system come as OSError; what is not allowed is PermissionDeniedError.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from flowengine.core.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.core.files.safe_open import open_beneath

#: What the ops of a graph may do with files: anything, read only, or nothing.
FILE_ACCESS: Final = ("all", "read", "none")


class Files:
    """The files of the system, by their paths.

    access    "all", "read" or "none": what is allowed; a call for what is not is PermissionDeniedError
    """

    def __init__(self, access: str = "all") -> None:
        self.access = access

    def __str__(self) -> str:
        return self.access

    def check_reading(self, path: str) -> None:
        """PermissionDeniedError where this may not be read."""
        if self.access == "none":
            raise self._refusal("reading", path)

    def check_writing(self, path: str) -> None:
        """PermissionDeniedError where this may not be written."""
        if self.access != "all":
            raise self._refusal("writing", path)

    def _refusal(self, what: str, path: str) -> PermissionDeniedError:
        return PermissionDeniedError(f"{what} {path!r} is not allowed: Config(file_access={self.access!r})")

    # What subclasses do otherwise.

    def descriptor(self, path: str, flags: int) -> int:
        """An open descriptor of a file or folder, with these flags of `os.open`. OSError as it comes."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.check_writing(path)
        else:
            self.check_reading(path)
        return os.open(path, flags | os.O_CLOEXEC, 0o666)

    @contextlib.contextmanager
    def folder_of(self, path: str) -> Iterator[tuple[str, int | None]]:
        """(the name, the descriptor of its folder) for a path to be written; the path and None as it is."""
        self.check_writing(path)
        yield path, None

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of the file at a path, links followed; None if there is no file."""
        self.check_reading(path)
        try:
            return os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def written(self, count: int) -> None:
        """So many bytes are about to be written; ResourceExhaustedError where that is too much."""

    # Opening.

    def open_raw(self, path: str) -> io.FileIO:
        """A file, open for reading, unbuffered."""
        return io.FileIO(path, "r", opener=lambda *_: self.descriptor(path, os.O_RDONLY))

    def open(self, path: str) -> BinaryIO:
        """A file, open for reading."""
        return io.BufferedReader(self.open_raw(path))

    def create(self, path: str) -> io.FileIO:
        """A new, empty file to write to; FileExistsError where there is one."""
        return CountedFile(self, path, os.O_CREAT | os.O_EXCL)

    def append(self, path: str) -> io.FileIO:
        """A file to write at the end of, made where there is none."""
        return CountedFile(self, path, os.O_CREAT | os.O_APPEND)

    # Looking.

    def exists(self, path: str) -> bool:
        return self.status(path) is not None

    def has_name(self, path: str) -> bool:
        """Whether there is such a name, be it of a link that leads nowhere."""
        self.check_reading(path)
        return os.path.lexists(path)

    def is_file(self, path: str) -> bool:
        found = self.status(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_folder(self, path: str) -> bool:
        found = self.status(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names(self, folder: str) -> list[str]:
        """Return the names of the entries in a folder."""
        if os.listdir not in os.supports_fd:
            self.check_reading(folder)
            return os.listdir(folder or ".")
        descriptor = self.descriptor(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def matching(self, pattern: str) -> list[str]:
        """Paths that exist and match, part by part: `*` and `?` stop at a slash.

        Folders that cannot be read have none.
        """
        found = ["/"] if pattern.startswith("/") else [""]
        fixed: list[str] = []
        for part in filter(None, pattern.split("/")):
            if not any(char in part for char in "*?["):
                fixed.append(part)
                continue
            following: list[str] = []
            for base in (os.path.join(each, *fixed) for each in found):
                try:
                    names = self.names(base)
                except (OSError, PermissionDeniedError):
                    continue
                following += [os.path.join(base, name) for name in names if fnmatch.fnmatchcase(name, part)]
            found, fixed = following, []
        if fixed:
            found = [path for path in (os.path.join(base, *fixed) for base in found) if self.has_name(path)]
        return [path for path in found if path]

    # Changing.

    def make_folder(self, path: str) -> None:
        """Make a folder where there is none; its parent must exist."""
        if path and not self.is_folder(path):
            with self.folder_of(path) as (name, folder):
                try:
                    os.mkdir(name, dir_fd=folder)
                except FileExistsError:
                    if not self.is_folder(path):
                        raise

    def make_folders(self, path: str) -> None:
        """Make a folder, and those above it, where there is none."""
        if path and not self.exists(path):
            self.make_folders(os.path.dirname(path.rstrip("/")))
            self.make_folder(path)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it."""
        with self.folder_of(source) as (old, old_folder), self.folder_of(target) as (new, new_folder):
            os.replace(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    def remove(self, path: str) -> None:
        with self.folder_of(path) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder that is empty."""
        with self.folder_of(path) as (name, folder):
            os.rmdir(name, dir_fd=folder)

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the disk."""
        descriptor = self.descriptor(path or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_whole(self, path: str, data: bytes) -> None:
        """Make a file hold this, and the folders that it needs: nobody sees half of it."""
        found = self.status(path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            # A pipe or a device is written as it is, where it may be.
            with CountedFile(self, path, 0) as through:
                through.write(data)
            return
        self.make_folders(os.path.dirname(path))
        aside = f"{path}.{secrets.token_hex(8)}.writing"
        try:
            with io.BufferedWriter(self.create(aside)) as file:
                file.write(data)
            self.rename(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(aside)
            raise


class CountedFile(io.FileIO):
    """A file that is written, and asks first whether so much may be."""

    def __init__(self, files: Files, path: str, flags: int) -> None:
        super().__init__(path, "w", opener=lambda *_: files.descriptor(path, os.O_WRONLY | flags))
        self._files = files

    def write(self, data: Any) -> int:
        self._files.written(memoryview(data).nbytes)
        return super().write(data)


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Which files the ops of a graph may reach: `Config(file_access=FileAccess(read=["/data"]))`.

    read         folders; what lies beneath them may be read. Or files, which may be read themselves
    write        folders; what lies beneath them may be read and written
    write_bytes  how much a session may write in all; None for no bound

    Only regular files and folders are opened, and a link is followed only where it stays beneath the folder
    that was named. InvalidArgumentError for what is no such list or number.

    >>> config = fe.Config(file_access=fe.FileAccess(read=["/data"], write=["/tmp/out"], write_bytes=1 << 20))
    """

    read: Sequence[str | Path] = ()
    write: Sequence[str | Path] = ()
    write_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in ("read", "write"):
            value = getattr(self, field)
            if isinstance(value, str | bytes) or not all(isinstance(each, str | Path) for each in value):
                raise InvalidArgumentError(f"FileAccess.{field} is {value!r}: it must be a list of folders")
            object.__setattr__(self, field, tuple(map(str, value)))
        if self.write_bytes is not None and (type(self.write_bytes) is not int or self.write_bytes < 0):
            raise InvalidArgumentError(
                f"FileAccess.write_bytes is {self.write_bytes!r}: it must be a whole number, 0 or more"
            )


class FileRoots(Files):
    """Files beneath folders that were named; see `FileAccess`.

    A path is parted from its root as text, and the rest is opened relative to the root's descriptor, by the
    system in one call where it can: what lies there may change at any time, and nothing that was looked at
    before is relied on. The folders are opened when they are first needed, and stay the same ever after.
    """

    def __init__(self, access: FileAccess) -> None:
        super().__init__("roots")
        if os.open not in os.supports_dir_fd:
            raise UnimplementedError("FileAccess needs a system that opens files relative to folders")
        self._given = access
        self._reading = _roots((*access.read, *access.write))
        self._writing = _roots(access.write)
        self._descriptors: dict[str, _Root] = {}
        self._left = access.write_bytes

    def __str__(self) -> str:
        return str(self._given)

    def check_reading(self, path: str) -> None:
        self._parted(path, writes=False)

    def check_writing(self, path: str) -> None:
        self._parted(path, writes=True)

    def _parted(self, path: str, *, writes: bool) -> tuple[str, str]:
        """(the root above a path, what leads from it there); PermissionDeniedError where there is none."""
        whole = os.path.abspath(path)
        for root in self._writing if writes else self._reading:
            if whole == root or whole.startswith(root.rstrip("/") + "/"):
                return root, whole[len(root) :].strip("/") or "."
        raise PermissionDeniedError(
            f"{'writing' if writes else 'reading'} {path!r} is not allowed: "
            f"Config(file_access={self._given}) names no folder above it"
        )

    def _root(self, root: str) -> int:
        found = self._descriptors.get(root)
        if found is None:
            found = self._descriptors.setdefault(root, _Root(root))
        return found.descriptor

    def descriptor(self, path: str, flags: int) -> int:
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        root, rest = self._parted(path, writes=writes)
        # A pipe without a writer is not waited for: it is refused below.
        flags |= os.O_NONBLOCK | os.O_NOCTTY
        if rest == "." and os.path.isfile(root):
            descriptor = os.open(root, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        else:
            descriptor = open_beneath(self._root(root), rest, flags, path)
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            os.close(descriptor)
            raise PermissionDeniedError(f"{path!r} is neither a regular file nor a folder")
        return descriptor

    @contextlib.contextmanager
    def folder_of(self, path: str) -> Iterator[tuple[str, int | None]]:
        root, rest = self._parted(path, writes=True)
        if rest == ".":
            raise PermissionDeniedError(f"{path!r} is itself a folder that Config(file_access=...) names")
        above, name = os.path.split(rest)
        folder = open_beneath(self._root(root), above or ".", os.O_RDONLY | os.O_DIRECTORY, path)
        try:
            yield name, folder
        finally:
            os.close(folder)

    def status(self, path: str) -> os.stat_result | None:
        root, rest = self._parted(path, writes=False)
        try:
            if rest == "." and os.path.isfile(root):
                return os.lstat(root)
            descriptor = open_beneath(self._root(root), rest, getattr(os, "O_PATH", os.O_NONBLOCK), path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def has_name(self, path: str) -> bool:
        root, rest = self._parted(path, writes=False)
        if rest == ".":
            return os.path.lexists(root)
        above, name = os.path.split(rest)
        try:
            folder = open_beneath(self._root(root), above or ".", os.O_RDONLY | os.O_DIRECTORY, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        finally:
            os.close(folder)
        return True

    def make_folders(self, path: str) -> None:
        root, rest = self._parted(path, writes=True)
        parts = [] if rest == "." else rest.split("/")
        for count in range(1, len(parts) + 1):
            above = os.path.join(root, *parts[:count])
            if not self.exists(above):
                self.make_folder(above)

    def written(self, count: int) -> None:
        if self._left is None:
            return
        if count > self._left:
            raise ResourceExhaustedError(
                f"{count} bytes are to be written, and {self._left} are left of what the session may write: "
                f"Config(file_access={self._given})"
            )
        self._left -= count


class _Root:
    """The descriptor of a root, closed with whoever holds it."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # The descriptor is not there where opening it failed.
        if "descriptor" in self.__dict__:
            os.close(self.descriptor)


def _roots(paths: Sequence[str | Path]) -> list[str]:
    """The longest first: the nearest root above a path is its own."""
    return sorted({os.path.abspath(each) for each in paths}, key=len, reverse=True)


_BY_ACCESS: Final = {access: Files(access) for access in FILE_ACCESS}

#: What the program itself may: everything.
SYSTEM: Final = _BY_ACCESS["all"]


def files_of(access: str | Files | None) -> Files:
    """The files that a setting allows; without one, all."""
    if access is None:
        return SYSTEM
    return access if isinstance(access, Files) else _BY_ACCESS[access]


__all__ = ["FILE_ACCESS", "SYSTEM", "CountedFile", "FileAccess", "FileRoots", "Files", "files_of"]
