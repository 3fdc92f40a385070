"""Opening what lies beneath a folder, and nothing else, whatever somebody puts in the way meanwhile.

Linux does it in one call, `openat2` with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS: links are followed as
long as they stay beneath. Where the system has no such call, each part of the path is opened from the
one before, and no link is followed at all.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from functools import cache
from typing import Any, Final

from flowengine.core.errors import PermissionDeniedError

#: The number of the call, the same on every architecture; its flags.
_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
#: Names that change while a path is looked up make the system ask to be called again.
_TRIES: Final = 100

_PATH: Final = getattr(os, "O_PATH", os.O_RDONLY)
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_MODE: Final = 0o666


def open_beneath(folder: int, path: str, flags: int, shown: str) -> int:
    """An open descriptor of `path` beneath an open folder, with these flags of `os.open`.

    shown   how errors name it

    OSError as it comes; PermissionDeniedError where the path leads out of the folder, or through a link where
    links cannot be followed safely.
    """
    try:
        if _has_openat2():
            return _openat2(folder, path, flags | os.O_CLOEXEC)
        return by_parts(folder, path, flags)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise PermissionDeniedError(
                f"{shown!r} leads out of the folder that Config(file_access=...) names, "
                "or through a link that is not followed"
            ) from None
        error.filename = shown
        raise


def by_parts(folder: int, path: str, flags: int) -> int:
    """As `open_beneath`, part by part and without links; OSError (ELOOP) for one."""
    *above, last = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    if ".." in (*above, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    current = folder
    try:
        for part in above:
            following = _open(current, part, _PATH | os.O_DIRECTORY)
            if current != folder:
                os.close(current)
            current = following
        found = _open(current, last, flags)
    finally:
        if current != folder:
            os.close(current)
    # With O_PATH the system opens a link itself.
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _open(above: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags | _NO_FOLLOW | os.O_CLOEXEC, _MODE, dir_fd=above)
    except NotADirectoryError:
        # Where a folder is asked for, a link is none to this call.
        if stat.S_ISLNK(os.stat(part, dir_fd=above, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


@cache
def _has_openat2() -> bool:
    """Whether the system has the call, and lets this process use it."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.close(_openat2(-100, ".", os.O_RDONLY | os.O_DIRECTORY))  # -100: the folder of this process
    except OSError as error:
        # That this folder may not be opened says nothing of the call.
        return error.errno == errno.EACCES
    return True


@cache
def _library() -> tuple[Any, Any]:
    """The C library's `syscall`, and the type of its third argument."""
    import ctypes

    class OpenCall(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (
        ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(OpenCall), ctypes.c_size_t
    )  # fmt: skip
    return call, OpenCall


def _openat2(folder: int, path: str, flags: int) -> int:
    import ctypes

    call, how_type = _library()
    mode = _MODE if flags & os.O_CREAT else 0
    how = how_type(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    code = errno.EAGAIN
    for _ in range(_TRIES):
        descriptor: int = call(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


__all__ = ["by_parts", "open_beneath"]
