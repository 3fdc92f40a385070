"""Transcripts of a shell in Markdown, and what a shell says to them.

A block that begins with ```console holds commands, each behind `$ `, and what they print. A command whose
line ends in a backslash goes on in the next. In what is printed `...` stands for anything within a line, and
a line that is nothing but `...` for any number of lines.

A block that begins with ```console title="a terminal of 80 columns" shows what is on such a terminal when its
commands have ended, lines that were drawn over included.

    python -m tests.docs.transcripts README.md      # print each command with what it says now

All commands of a page run in one shell, in a copy of `docs/examples/`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.tools.terminals import COLUMNS, Terminal

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "docs" / "examples"
#: What the pages of a server write, and what it is called by while they are played.
PORT: Final = "8000"

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WATCHED: Final = re.compile(
    r'^```console title="a terminal of 80 columns"\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
#: Stands behind what a command has printed, with its exit status.
_END: Final = re.compile(r"\x1e(\d+)\x1e\n?")
#: For a shell that hangs, on a machine that has much to do.
_SECONDS_MAX: Final = 900


@dataclass(frozen=True)
class Exchange:
    """A command with what it is said to print.

    line      where the command stands in its page
    command   what the shell is given
    printed   the lines below it
    """

    line: int
    command: str
    printed: Sequence[str]


@dataclass(frozen=True)
class Said:
    """The output of a command, standard error included, and its exit status."""

    text: str
    status: int


def exchanges(text: str, *, on_terminal: bool = False) -> list[Exchange]:
    """The commands of a page in order; ValueError for a block that begins with none.

    on_terminal   those that are shown on a terminal, rather than the others
    """
    found: list[Exchange] = []
    for block in (_WATCHED if on_terminal else _BLOCK).finditer(text):
        first = text.count("\n", 0, block.start()) + 2
        lines = block.group(1).splitlines()
        if not lines or not lines[0].startswith("$ "):
            raise ValueError(f"line {first}: a transcript begins with a command: '$ ...'")
        place = 0
        while place < len(lines):
            start = place
            command = [lines[place].removeprefix("$ ")]
            while command[-1].endswith("\\"):
                place += 1
                command.append(lines[place])
            place += 1
            below = place
            while place < len(lines) and not lines[place].startswith("$ "):
                place += 1
            found.append(Exchange(first + start, "\n".join(command), tuple(lines[below:place])))
    return found


def pattern(printed: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern that matches a text which these lines show."""
    parts = []
    for line in printed:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(r"[^\n]*".join(re.escape(each) for each in line.rstrip().split("...")) + "\n")
    return re.compile("".join(parts))


def fits(exchange: Exchange, said: Said) -> bool:
    """Whether a command ended well and printed what is shown."""
    text = "".join(f"{line.rstrip()}\n" for line in said.text.rstrip().splitlines())
    return said.status == 0 and pattern(exchange.printed).fullmatch(text) is not None


def play(commands: Sequence[str], folder: Path) -> list[Said]:
    """Run commands in one shell, in a copy of the examples in `folder`.

    What runs in the background ends with the shell. The pages' port, 8000, is a free one, and 8000 again in
    what is printed.
    """
    _copy_examples(folder)
    port = str(_free_port())
    script = "exec 2>&1 </dev/null\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n" + "".join(
        f"{command.replace(PORT, port)}\nprintf '\\x1e%d\\x1e\\n' $?\n" for command in commands
    )
    environment = _environment() | {"NO_COLOR": "1", "COLUMNS": "110", "TERM": "dumb"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    pieces = _END.split(done.stdout.replace(port, PORT))
    said = [Said(text, int(status)) for text, status in zip(pieces[::2], pieces[1::2], strict=False)]
    said += [Said(pieces[-1] + done.stderr, done.returncode)] * (len(commands) - len(said))
    return said


def watch(command: str, folder: Path) -> Said:
    """Run a command in a copy of the examples; return its output on a terminal of 80 columns."""
    _copy_examples(folder)
    main_end, terminal = os.openpty()
    size = struct.pack("HHHH", 50, COLUMNS, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=_environment() | {"TERM": "xterm-256color"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    written = b""
    with suppress(OSError), open(main_end, "rb", buffering=0) as output:  # the error is the other end's close
        while part := output.read(65536):
            written += part
    shown = Terminal()
    shown.write(written.decode())
    return Said("\n".join(shown.rows), process.wait())


def _copy_examples(folder: Path) -> None:
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FLOWENGINE_", "PYTHON", "COLUMNS", "LINES"))
    } | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),  # a bare checkout is played, too
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def main(pages: Sequence[str]) -> None:
    for page in pages:
        shown = exchanges(Path(page).read_text())
        with tempfile.TemporaryDirectory() as folder:
            for exchange, said in zip(
                shown, play([each.command for each in shown], Path(folder)), strict=True
            ):
                mark = (
                    ""
                    if fits(exchange, said)
                    else f"   # line {exchange.line}: differs, status {said.status}"
                )
                print(f"$ {exchange.command}{mark}\n{said.text.rstrip()}")


if __name__ == "__main__":
    main(sys.argv[1:])
