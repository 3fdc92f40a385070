"""Files that hold secrets: keys, and certificates with theirs. Only their owner may read or change them.

    key.read_bytes()          anybody's
    read_secret(path)         one's own, 0600, in a folder where nobody else can put another in its place

Where the system has no owners and modes (Windows), nothing is refused.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from flowengine.core.errors import AlreadyExistsError, NotFoundError, PermissionDeniedError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def read_secret(path: str | Path) -> bytes:
    """Return the contents of a secret file.

    Raises NotFoundError where there is none, and PermissionDeniedError, with the command that mends it, where
    it is somebody else's, others may read it, or others may write in its folder.
    """
    try:
        with open(path, "rb") as file:
            _check(os.fstat(file.fileno()), path)
            return file.read()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise NotFoundError(f"{path} is a folder, not a file") from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{path} cannot be read: {error.strerror}") from None


def _check(found: os.stat_result, path: str | Path) -> None:
    if os.name != "posix":
        return
    owner = os.geteuid()
    # What is root's, root may change anyway.
    if found.st_uid not in (owner, 0):
        raise PermissionDeniedError(
            f"{path} is a secret, and belongs to user {found.st_uid}, not to this process's user {owner}: "
            f"chown {owner} {shlex.quote(str(path))}"
        )
    if found.st_mode & _OTHERS:
        raise PermissionDeniedError(
            f"{path} is a secret that others can use (its mode is {_mode(found)}): "
            f"chmod 600 {shlex.quote(str(path))}"
        )
    check_folder(Path(path).parent)


def check_folder(folder: Path) -> None:
    """PermissionDeniedError, with the command that mends it, where others could replace a folder's files."""
    if os.name != "posix":
        return
    found = folder.stat()
    name = shlex.quote(str(folder))
    if found.st_uid not in (os.geteuid(), 0):
        raise PermissionDeniedError(
            f"the folder {folder} holds secrets, and belongs to user {found.st_uid}: "
            f"chown {os.geteuid()} {name}"
        )
    # In a folder such as /tmp nobody can replace what is another's.
    if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        raise PermissionDeniedError(
            f"the folder {folder} holds secrets, and others can write in it (its mode is {_mode(found)}): "
            f"chmod 700 {name}"
        )


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"


def make_folder(folder: Path) -> None:
    """A folder for secrets, 0700 where it is made here; PermissionDeniedError as `check_folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(folder)


def write_new(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file with this mode from its first byte on; AlreadyExistsError where there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise AlreadyExistsError(f"{path} is there already") from None
    with open(descriptor, "wb") as file:
        file.write(data)


def replace(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a file in another's place at once: whoever reads finds the former one or the new one, whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    write_new(aside, data, mode=mode)
    try:
        os.replace(aside, path)
    except BaseException:
        aside.unlink()
        raise


__all__ = ["check_folder", "make_folder", "read_secret", "replace", "write_new"]
