"""`--sandbox`: the verb runs in a process that has locked itself in, and this one prints what it says.

Nothing of a file is read here. The process may read what the command line names, and write where it is
allowed to; what it prints is a stranger's text, in which nothing moves a cursor.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import Any, Final

import click

from flowengine.cli.failure import STEP_ERROR, TIMEOUT, USAGE, CommandError
from flowengine.cli.imports import imported

#: Whether this process is the one in the box.
_inside = False

_UNITS: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?i?)b?\Z", re.IGNORECASE)
#: What splits the parts of an argument that may each be the name of a file: "x=cat.jpg", "x@data.npz:x".
_JOINTS: Final = re.compile(r"[=@:,]")
#: How often memory and time are looked at, and what is read at a time.
_LOOK_SECONDS: Final = 0.05
_PIECE_BYTES: Final = 64 * 1024
#: What starting and reading a graph may take beside its values.
_SPARE_BYTES: Final = 256 << 20
_LARGEST_FILE: Final = 1 << 30

_BEGIN: Final = """
import sys
sys.path[:0] = sys.argv[1:2]
from flowengine.cli.sandbox.running import begin
begin(sys.argv[2])
"""

_OPTIONS: Final = (
    click.option("--sandbox", is_flag=True, help="Read and run the graph in a locked process."),
    click.option(
        "--sandbox-memory",
        default="2GB",
        metavar="SIZE",
        show_default=True,
        help="Limit on the memory of the process.",
    ),
    click.option(
        "--sandbox-seconds",
        default=60.0,
        metavar="S",
        show_default=True,
        help="Limit on the total time of the process, in seconds.",
    ),
    click.option(
        "--sandbox-write",
        "sandbox_writes",
        multiple=True,
        metavar="FOLDER",
        help="Folder that the graph may write to.",
    ),
)


def boxable(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with the options of a sandbox, which runs there when asked to."""

    @functools.wraps(verb)
    def boxed(
        *args: Any,
        sandbox: bool,
        sandbox_memory: str,
        sandbox_seconds: float,
        sandbox_writes: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        if not sandbox or _inside:
            return verb(*args, **kwargs)
        context = click.get_current_context()
        arguments = context.find_root().obj["arguments"]
        imports = imported(context)
        context.exit(_run(arguments, _size(sandbox_memory), sandbox_seconds, sandbox_writes, imports))

    for option in reversed(_OPTIONS):
        boxed = option(boxed)
    return boxed


def _size(text: str) -> int:
    found = _SIZE.match(text.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    if not found or unit is None or not float(found[1]):
        raise CommandError(f"--sandbox-memory {text}: write a size such as 500MB or 2GiB", USAGE)
    return int(float(found[1]) * unit)


def _named(arguments: Sequence[str]) -> list[str]:
    """Files and folders that the command line names, those of a checkpoint's prefix too."""
    found: dict[str, None] = {}
    for argument in arguments:
        for part in {argument, *_JOINTS.split(argument)} - {"", ".", "..", "/"}:
            if Path(part).exists():
                found[str(Path(part).resolve())] = None
            elif not part.startswith("-"):
                found.update((str(Path(each).resolve()), None) for each in glob(f"{escape(part)}.*"))
    return list(found)


def _run(
    arguments: Sequence[str], memory_bytes: int, seconds: float, writes: Sequence[str], imports: Sequence[str]
) -> int:
    """Run the command line in a box; its exit code. It imports the modules before system calls are closed."""
    from flowengine.sandbox import confine
    from flowengine.sandbox.process_usage import ProcessUsage, died_of

    without = confine.missing()
    if without:
        raise CommandError(f"there can be no sandbox here: {'; '.join(without.values())}", USAGE)
    here = str(Path(__file__).resolve().parents[3])
    orders = {"arguments": list(arguments), "parent": os.getpid(), "read": _named(arguments)}
    orders["write"] = [str(Path(each).resolve()) for each in writes]
    orders["imports"] = list(imports)
    orders["modules"] = [str(Path(each).resolve()) for each in sys.path if each] if imports else []
    with subprocess.Popen(
        [sys.executable, "-I", "-c", _BEGIN, here, json.dumps(orders)],
        stdin=None if "-" in arguments else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", "NO_COLOR": "1"},
        start_new_session=True,
    ) as process:
        gauge = ProcessUsage(process.pid)
        gauge.settle(memory_bytes + _SPARE_BYTES)
        deadline = time.monotonic() + seconds
        try:
            for stream, text in _output_of(process):
                _print(stream, text)
                verdict = _judge(gauge, memory_bytes + _SPARE_BYTES, seconds, deadline)
                if verdict is not None:
                    process.kill()
                    raise verdict
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        code = process.wait()
    if code < 0:
        raise CommandError(f"the sandbox was ended {died_of(code)}", STEP_ERROR)
    return code


def _judge(gauge: Any, memory_bytes: int, seconds: float, deadline: float) -> CommandError | None:
    if gauge.taken_bytes > memory_bytes:
        return CommandError("the sandbox was ended: it took more memory than --sandbox-memory", STEP_ERROR)
    if time.monotonic() > deadline or gauge.cpu_seconds > seconds * (os.cpu_count() or 1):
        return CommandError("the sandbox was ended: it took longer than --sandbox-seconds", TIMEOUT)
    return None


def _output_of(process: subprocess.Popen[bytes]) -> Any:
    """(stream, text) as it comes, and (None, "") now and then, until the process has closed both streams."""
    pairs: Any = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    with selectors.DefaultSelector() as selector:
        for pipe, stream in pairs:
            selector.register(pipe, selectors.EVENT_READ, stream)
        while selector.get_map():
            ready = selector.select(_LOOK_SECONDS)
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                if piece:
                    yield key.data, piece.decode("utf-8", "backslashreplace")
                else:
                    selector.unregister(key.fileobj)
            if not ready:
                yield None, ""


def _print(stream: Any, text: str) -> None:
    from flowengine.core.text import printable

    if stream is not None:
        click.echo(printable(text, _PIECE_BYTES, keep="\n\t"), file=stream, nl=False)


def begin(text: str) -> None:
    """Lock this process in and run the command line that it was given. Never returns."""
    global _inside
    import trio as _trio  # noqa: F401  (it starts a program that lists libraries)

    from flowengine.sandbox import confine

    orders = json.loads(text)
    _inside = True
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one outside is told, and ends this one
    here = Path(__file__).resolve().parents[2]
    packages = [str(here), *(str(each.resolve()) for each in here.iterdir() if each.is_symlink())]
    packages += [each for each in sys.path if each.endswith("-packages")]
    packages += orders["modules"]
    sys.path += [each for each in orders["modules"] if each not in sys.path]
    confine.detach(orders["parent"], ())
    confine.close_files(packages, orders["read"], orders["write"])
    from flowengine.cli.main import main

    for name in orders["imports"]:
        with suppress(Exception):  # what it raises is told where the command line is read
            importlib.import_module(name)
    confine.limit_sizes(_LARGEST_FILE if orders["write"] else 0)
    confine.close_calls(exec_memory=True)
    code = main(orders["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


__all__ = ["begin", "boxable"]
