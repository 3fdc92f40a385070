"""Locks this process in: files by Landlock, system calls by seccomp, sizes by resource limits. Linux only.

The order matters. `detach` and `close_files` come while the process has one thread, since Landlock binds the
thread that calls it and those that this one starts. Libraries are imported and their threads started after
it. `close_calls` comes last and binds every thread at once. What was locked cannot be opened again.

See landlock(7), seccomp(2), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flowengine.sandbox import calls
from flowengine.sandbox.calls import ConfinementError

LIMITS: Final = "limits"
LANDLOCK: Final = "landlock"
SECCOMP: Final = "seccomp"
#: What a box can be made of, from the weakest.
LEVELS: Final = (LIMITS, LANDLOCK, SECCOMP)

# prctl(2)
_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_GET_SECCOMP: Final = 21
_SET_NO_NEW_PRIVS: Final = 38

# landlock(7): the numbers of its three calls are the same on every architecture.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_FOLDER: Final = 1 << 3
_TRUNCATE: Final = 1 << 14
#: What may be said of a file that is no folder; the rest is refused there.
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_READ: Final = _READ_FILE | _READ_FOLDER
#: Removing and making files and folders, renaming across folders; no devices, sockets, pipes or links.
_WRITE: Final = _WRITE_FILE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | _TRUNCATE
#: {version: the highest right on files that it knows, as a mask of all up to it}
_KNOWN_RIGHTS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
#: TCP: to bind and to connect. Abstract sockets, and signals to processes outside.
_NETWORK: Final = 0b11
_SCOPES: Final = 0b11

#: Where programs and libraries of the system lie.
_SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache")
#: What the C library and NumPy's libraries ask about the machine.
_MACHINE: Final = ("/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage", "/dev/urandom")

_DESCRIPTORS: Final = 512
_FIRST_FREE: Final = 3


class _Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _FolderRule(ctypes.Structure):
    """`struct landlock_path_beneath_attr`."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise ConfinementError(f"{what}: {os.strerror(number)}")
    return result


def missing() -> dict[str, str]:
    """{level that this machine cannot give: why}; empty where the whole box can be made."""
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(LEVELS, f"{platform.system()} has none of what a box is made of: it needs Linux")
    without: dict[str, str] = {}
    if landlock_version() < 1:
        without[LANDLOCK] = "this kernel has no Landlock (5.13 and newer, where it is switched on)"
    if _libc().prctl(_GET_SECCOMP, 0, 0, 0, 0) < 0:
        without[SECCOMP] = "this kernel was built without seccomp"
    elif calls.library() is None:
        without[SECCOMP] = "libseccomp is not installed"
    elif platform.machine() not in calls.MACHINES:
        without[SECCOMP] = f"no list of system calls was tried on {platform.machine()}"
    return without


def landlock_version() -> int:
    """The version of Landlock's interface; 0 where there is none."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)))


def detach(parent: int, keep: Sequence[int]) -> None:
    """Die with the parent, keep no other descriptors than these, gain no rights, show nothing to a debugger.

    Raises ConfinementError where the parent is gone already.
    """
    libc = _libc()
    _checked(libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "dying with the parent")
    if os.getppid() != parent:
        raise ConfinementError("the process that asked for a box is gone")
    first = _FIRST_FREE
    for each in sorted(keep):
        os.closerange(first, each)
        first = each + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _checked(libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "hiding from debuggers")
    _checked(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "renouncing new rights")


def close_files(packages: Iterable[str], read: Iterable[str] = (), write: Iterable[str] = ()) -> None:
    """Let this thread, and those that it starts, open nothing but what lies beneath these.

    packages      files and folders of programs, read and executed, besides Python's own and the system's
    read, write   folders or files of the graph's; what may be written may be read
    Raises ConfinementError where Landlock is missing or refuses.
    """
    version = landlock_version()
    if version < 1:
        raise ConfinementError(missing()[LANDLOCK])
    libc = _libc()
    known = _KNOWN_RIGHTS[max(each for each in _KNOWN_RIGHTS if each <= version)]
    handled = _Ruleset(known, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = ctypes.sizeof(_Ruleset) if version >= 6 else 16 if version >= 4 else 8
    rules = int(libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(size), 0))
    _checked(rules, "making rules for files")
    try:
        own = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
        for path in {*_SYSTEM, *own, *packages}:
            _allow(libc, rules, path, (_READ | _EXECUTE) & known)
        for path in (*_MACHINE, *read):
            _allow(libc, rules, path, _READ & known)
        for path in write:
            _allow(libc, rules, path, (_READ | _WRITE) & known)
        _allow(libc, rules, os.devnull, (_READ_FILE | _WRITE_FILE) & known)
        _checked(libc.syscall(_RESTRICT_SELF, rules, 0), "restricting files")
    finally:
        os.close(rules)


def _allow(libc: Any, rules: int, path: str, rights: int) -> None:
    try:
        where = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing is there, so there is nothing to allow
    try:
        if not Path(f"/proc/self/fd/{where}").is_dir():
            rights &= _OF_A_FILE
        rule = _FolderRule(rights, where)
        _checked(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0), f"allowing {path}")
    finally:
        os.close(where)


def limit_sizes(file_bytes: int) -> None:
    """Bound the files that are written, in bytes each, and the number of descriptors; no core dumps.

    The address space is bounded from outside: to measure it, files would have to be open.
    """
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    _lower(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with suppress(ValueError):
        resource.setrlimit(kind, (most, most))


def close_calls(*, exec_memory: bool) -> None:
    """Let every thread of this process make only the system calls of `calls`; others fail with EPERM.

    exec_memory   whether memory may be made executable, which oneDNN needs: it compiles
    Raises ConfinementError where seccomp or libseccomp is missing or refuses.
    """
    library = calls.library()
    if library is None:
        raise ConfinementError("libseccomp is not installed")
    calls.load_filter(library, exec_memory=exec_memory)


__all__ = [
    "LANDLOCK",
    "LEVELS",
    "LIMITS",
    "SECCOMP",
    "ConfinementError",
    "close_calls",
    "close_files",
    "detach",
    "landlock_version",
    "limit_sizes",
    "missing",
]
