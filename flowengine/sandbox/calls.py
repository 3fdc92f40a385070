"""The system calls that a process in a box may make, and the filter made of them by libseccomp.

What is not named fails with EPERM: sockets and connections, other programs and processes, signals to others,
debugging, namespaces, mounts, keys, io_uring, bpf, userfaultfd, and whatever a later kernel brings. A call
that carries data is only allowed on descriptors that are there; which files may be opened is Landlock's part.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, Final, NamedTuple

#: Where the list was tried.
MACHINES: Final = ("x86_64", "aarch64")

_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
#: Attribute: all threads of the process, not only the one that asks.
_ALL_THREADS: Final = 4
#: Comparisons: equal, and equal under a mask.
_EQUAL: Final = 4
_MASKED: Final = 7

_EXECUTABLE: Final = 0x4  # PROT_EXEC
_SHARED: Final = 0x1  # MAP_SHARED, and a bit of MAP_SHARED_VALIDATE
_ANONYMOUS: Final = 0x20  # MAP_ANONYMOUS
#: A new thread of this process: CLONE_THREAD, and none of the flags for namespaces, tracing or vfork.
_THREAD: Final = 0x10000
_NO_PROCESS: Final = _THREAD | 0x2000 | 0x4000 | 0x20000 | 0x7E000000

_ALLOWED: Final = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
    recvmsg recvfrom sendmsg sendto shutdown getsockopt setsockopt getsockname getpeername splice
    vmsplice open openat openat2 stat fstat lstat newfstatat statx readlink readlinkat access faccessat
    faccessat2 getdents getdents64 getcwd dup dup2 dup3 pipe pipe2 fadvise64 sync_file_range statfs
    fstatfs mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 ftruncate fallocate fsync
    fdatasync copy_file_range sendfile epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 eventfd eventfd2 poll ppoll select pselect6 futex futex_waitv set_robust_list
    get_robust_list rseq set_tid_address membarrier munmap mremap madvise brk msync mincore
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage sysinfo
    uname sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max
    sched_get_priority_min getcpu getpriority getpid getppid gettid getuid geteuid getgid getegid
    getresuid getresgid getgroups getpgrp getpgid getsid getrandom getrlimit rt_sigaction
    rt_sigprocmask rt_sigreturn sigaltstack restart_syscall exit exit_group
"""

#: ioctl(2): non-blocking, close on exec and its contrary, whether it is a terminal.
_IOCTLS: Final = (0x5421, 0x5451, 0x5450, 0x5401)
#: fcntl(2): copies and flags of descriptors, sizes of pipes; nothing that sends signals.
_FCNTLS: Final = (0, 1, 2, 3, 4, 1030, 1031, 1032)
#: prctl(2): the name of a thread, set and asked for.
_PRCTLS: Final = (15, 16)


class ConfinementError(Exception):
    """A part of the box could not be made: what, and what the system said."""


class _Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class _Rule(NamedTuple):
    """A call that is allowed where these comparisons of its arguments hold."""

    call: str
    where: tuple[_Comparison, ...] = ()


def _equal(argument: int, value: int) -> _Comparison:
    return _Comparison(argument, _EQUAL, value, 0)


def _masked(argument: int, mask: int, value: int) -> _Comparison:
    return _Comparison(argument, _MASKED, mask, value)


def _rules(*, exec_memory: bool) -> list[_Rule]:
    """All that is allowed to this process."""
    rules = [_Rule(call) for call in _ALLOWED.split()]
    rules += [_Rule("ioctl", (_equal(1, each),)) for each in _IOCTLS]
    rules += [_Rule("fcntl", (_equal(1, each),)) for each in _FCNTLS]
    rules += [_Rule("prctl", (_equal(0, each),)) for each in _PRCTLS]
    rules.append(_Rule("clone", (_masked(0, _NO_PROCESS, _THREAD),)))
    # Two ends that know each other alone, by which threads wake each other; domain AF_UNIX.
    rules.append(_Rule("socketpair", (_equal(0, 1),)))
    # What limits are, of this process; none is set.
    rules.append(_Rule("prlimit64", (_equal(0, 0), _equal(2, 0))))
    # What abort(3) sends to itself.
    rules.append(_Rule("tgkill", (_equal(0, os.getpid()),)))
    within = () if exec_memory else (_masked(2, _EXECUTABLE, 0),)
    rules.append(_Rule("mprotect", within))
    # Memory of no file is a process's own: what it shared with nobody would count for nobody.
    rules += [_Rule("mmap", (*within, _masked(3, each, 0))) for each in (_ANONYMOUS, _SHARED)]
    return rules


@cache
def library() -> Any:
    """libseccomp; None where it is not installed. By its own name: to search for it starts programs."""
    try:
        return ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None


def load_filter(library: Any, *, exec_memory: bool) -> None:
    """Bind every thread of this process. Raises ConfinementError where the system refuses."""
    library.seccomp_init.restype = ctypes.c_void_p
    for name in ("seccomp_rule_add_array", "seccomp_attr_set", "seccomp_load", "seccomp_release"):
        getattr(library, name).argtypes = None
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_FAIL | errno.EPERM)))
    if not context.value:
        raise _refused("making a filter", -errno.ENOMEM)
    try:
        for rule in _rules(exec_memory=exec_memory):
            _add(library, context, ctypes.c_uint32(_ALLOW), rule)
        # The C library takes the older call then, whose flags can be looked at.
        _add(library, context, ctypes.c_uint32(_FAIL | errno.ENOSYS), _Rule("clone3"))
        _done(library.seccomp_attr_set(context, _ALL_THREADS, ctypes.c_uint32(1)), "binding all threads")
        _done(library.seccomp_load(context), "loading the filter")
    finally:
        library.seccomp_release(context)


def _add(library: Any, context: Any, action: Any, rule: _Rule) -> None:
    number = library.seccomp_syscall_resolve_name(rule.call.encode("ascii"))
    if number < 0:
        return  # this machine's kernel has it under another name, which is in the list too
    where = (_Comparison * len(rule.where))(*rule.where)
    count = ctypes.c_uint(len(rule.where))
    _done(library.seccomp_rule_add_array(context, action, number, count, where), f"allowing {rule.call}")


def _done(result: int, what: str) -> None:
    if result:
        raise _refused(what, result)


def _refused(what: str, result: int) -> ConfinementError:
    return ConfinementError(f"{what}: {os.strerror(-result)}")


__all__ = ["MACHINES", "ConfinementError", "library", "load_filter"]
