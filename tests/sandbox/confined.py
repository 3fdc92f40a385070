"""A program in a box that tries what it likes; JSON on stdout. `confined.py PACKAGES READ WRITE EXEC USER`

It locks itself in as the product's process does, and then makes system calls by number, since no library may
stand between it and the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

sys.path[:0] = sys.argv[1].split(":")

from flowengine.sandbox import confine  # noqa: E402

#: x86_64's numbers, as in <asm/unistd_64.h>.
_NUMBERS: Final = {
    "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "socketpair": 53, "fork": 57,
    "vfork": 58, "execve": 59, "wait4": 61, "kill": 62, "shmget": 29, "msgget": 68, "semget": 64, "link": 86,
    "symlink": 88, "chmod": 90, "chown": 92, "ptrace": 101, "setuid": 105, "setgid": 106, "setsid": 112,
    "utime": 132, "mknod": 133, "personality": 135, "setpriority": 141, "mlockall": 151, "pivot_root": 155,
    "chroot": 161, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169,
    "sethostname": 170, "init_module": 175, "quotactl": 179, "setxattr": 188, "tkill": 200, "io_setup": 206,
    "timer_create": 222, "tgkill": 234, "mq_open": 240, "add_key": 248, "keyctl": 250, "inotify_init": 253,
    "unshare": 272, "timerfd_create": 283, "signalfd4": 289, "inotify_init1": 294, "perf_event_open": 298,
    "rt_tgsigqueueinfo": 297, "fanotify_init": 300, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "seccomp": 317, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321,
    "execveat": 322, "userfaultfd": 323, "pkey_mprotect": 329, "io_uring_setup": 425,
    "pidfd_send_signal": 424,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "pidfd_open": 434, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "landlock_create_ruleset": 444, "memfd_secret": 447,
    "setitimer": 38, "setrlimit": 160, "arch_prctl": 158, "ioperm": 173, "iopl": 172, "syslog": 103,
}  # fmt: skip

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(number: int, *arguments: Any) -> str:
    """The name of the error of a system call, or what it returned."""
    ctypes.set_errno(0)
    result = _libc.syscall(
        number, *(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    )
    return errno.errorcode.get(ctypes.get_errno(), "?") if result < 0 else f"returned {result}"


def _attempt(doing: Callable[[], object]) -> str:
    try:
        return f"returned {doing()!r}"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")


def _opening(path: str, flags: int) -> str:
    def doing() -> int:
        descriptor = os.open(path, flags, 0o600)
        os.close(descriptor)
        return 0

    return _attempt(doing)


def _calls(parent: int) -> dict[str, str]:
    found = {name: _call(number, 0, 0, 0, 0, 0, 0) for name, number in _NUMBERS.items()}
    found["kill the parent"] = _call(_NUMBERS["kill"], parent, 0)
    found["tgkill the parent"] = _call(_NUMBERS["tgkill"], parent, parent, 0)
    found["fork by clone"] = _call(56, int(signal.SIGCHLD), 0, 0, 0, 0)
    found["a thread in a new network"] = _call(56, 0x10000 | 0x40000000, 0, 0, 0, 0)
    found["a limit of another"] = _call(302, parent, 7, 0, 0)  # prlimit64
    found["a limit of its own"] = _call(302, 0, 7, ctypes.byref((ctypes.c_uint64 * 2)(64, 64)), 0)
    found["descriptors owned"] = _call(72, 0, 8, os.getpid())  # fcntl F_SETOWN
    found["typing into a terminal"] = _call(16, 0, 0x5412, 0)  # ioctl TIOCSTI
    found["dumpable again"] = _call(157, 4, 1, 0, 0, 0)
    found["debugged by anybody"] = _call(157, 0x59616D61, -1, 0, 0, 0)
    found["executable memory"] = _call(9, 0, 4096, 7, 0x22, -1, 0)
    found["shared memory of no file"] = _call(9, 0, 4096, 3, 0x21, -1, 0)
    found["shared and validated"] = _call(9, 0, 4096, 3, 0x23, -1, 0)
    found["memory made executable"] = _call(10, 0, 0, 4)
    return found


def _files(read: str, write: str, parent: int) -> dict[str, str]:
    readable, writable = f"{read}/inside", f"{write}/new"
    return {
        "reading inside": _opening(readable, os.O_RDONLY),
        "writing what may be read": _opening(readable, os.O_WRONLY),
        "truncating what may be read": _opening(readable, os.O_RDONLY | os.O_TRUNC),
        "making a file where one may read": _opening(f"{read}/new", os.O_WRONLY | os.O_CREAT),
        "a link out": _opening(f"{read}/link", os.O_RDONLY),
        "above the root": _opening(f"{read}/../outside", os.O_RDONLY),
        "passwords": _opening("/etc/passwd", os.O_RDONLY),
        "another's home": _opening("/root", os.O_RDONLY),
        "the environment": _opening("/proc/self/environ", os.O_RDONLY),
        "the parent's environment": _opening(f"/proc/{parent}/environ", os.O_RDONLY),
        "the parent's memory": _opening(f"/proc/{parent}/mem", os.O_RDWR),
        "its own memory": _opening("/proc/self/mem", os.O_RDWR),
        "processes": _opening("/proc", os.O_RDONLY),
        "the kernel's settings": _opening("/proc/sys/kernel/core_pattern", os.O_RDWR),
        "devices": _opening("/dev/zero", os.O_RDONLY),
        "the terminal": _opening("/dev/tty", os.O_RDWR),
        "shared memory": _opening("/dev/shm/x", os.O_RDWR | os.O_CREAT),
        "a file in the open": _opening("/tmp/flowengine-escaped", os.O_WRONLY | os.O_CREAT),
        "writing inside": _opening(writable, os.O_WRONLY | os.O_CREAT),
        "removing what may be read": _attempt(lambda: os.unlink(readable)),
        "a link made": _attempt(lambda: os.symlink("/etc/passwd", f"{write}/link")),
        "a pipe made": _attempt(lambda: os.mkfifo(f"{write}/pipe")),
        "moving out": _attempt(lambda: os.rename(writable, f"{read}/moved")),
        "another program": _attempt(lambda: os.execv("/bin/true", ["true"])),
        "an internet socket": _attempt(lambda: socket.socket().close()),
        "a local socket": _attempt(lambda: socket.socket(socket.AF_UNIX).close()),
    }


def main() -> None:
    """Lock this process in, try everything, and tell how each attempt ended."""
    read, write, exec_memory = sys.argv[2], sys.argv[3], sys.argv[4] == "1"
    parent, user = os.getppid(), int(sys.argv[5])
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    assert not confine.missing()
    confine.detach(parent, ())
    confine.close_files([], [read], [write])
    confine.limit_sizes(1 << 20)
    confine.close_calls(exec_memory=exec_memory)
    found = _files(read, write, parent) | _calls(parent)
    os.write(1, json.dumps(found).encode())


if __name__ == "__main__":
    main()
