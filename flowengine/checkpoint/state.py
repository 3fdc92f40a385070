"""The file `checkpoint` in a folder: which checkpoints it holds, and which of them is the latest.

It is TensorFlow's CheckpointState as text, so either library goes on where the other has stopped. It is
replaced as a whole, after the checkpoint that it names is complete: it never names a half-written one.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flowengine.checkpoint.files import DISK, FileLayer, index_path, replace_file
from flowengine.core.errors import DataLossError

#: What the file is called unless somebody wants it otherwise.
STATE_NAME: Final = "checkpoint"

_LATEST: Final = "model_checkpoint_path"
_ALL: Final = "all_model_checkpoint_paths"

_TOKEN: Final = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*(?:
        (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
      | (?P<word> [A-Za-z_][\w.]* )
      | (?P<number> [-+]?[\w.+-]+ )
      | (?P<sign> [:;,\[\]] )
      | (?P<end> \Z )
    )""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The prefixes of the checkpoints in a folder, as usable paths.

    latest   of the newest one; empty if there is none
    all      of every one that is kept, the oldest first; the last one is `latest`

    >>> from flowengine.train import CheckpointState
    >>> state = CheckpointState("run/model-20", ("run/model-10", "run/model-20"))
    >>> state.latest
    'run/model-20'
    """

    latest: str
    all: tuple[str, ...]


def read_state(folder: str, name: str = STATE_NAME) -> CheckpointState | None:
    """Read the state file in a folder and join its relative paths to the folder; None if it has no file.

    Raises DataLossError if the file is not a CheckpointState.

    >>> graph = fe.Graph()
    >>> w = graph.variable(1.0, name="w")
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     prefix = fe.blocking.Saver().save(session, "run/model", global_step=3)
    >>> fe.train.latest_checkpoint("run"), len(fe.train.get_checkpoint_state("run").all)
    ('run/model-3', 1)
    """
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    try:
        found = list(_parse(content.decode("utf-8", "surrogateescape")))
    except ValueError as error:
        raise DataLossError(f"{path}: not a checkpoint state file: {error}") from None
    latest = [value for key, value in found if key == _LATEST]
    everything = [value for key, value in found if key == _ALL]
    return CheckpointState(
        os.path.join(folder, latest[-1]) if latest and latest[-1] else "",
        tuple(os.path.join(folder, each) for each in everything),
    )


def _parse(text: str) -> Iterator[tuple[str, str]]:
    """(field, value) pairs of text format without nested messages; strings are decoded."""
    tokens = _tokens(text)
    for kind, token in tokens:
        if kind == "sign" and token in ";,":
            continue
        if kind != "word" or next(tokens, ("", ""))[1] != ":":
            raise ValueError(f"expected a field and a colon, found {token!r}")
        kind, value = next(tokens, ("", ""))
        if token not in (_LATEST, _ALL):
            continue  # times at which they were saved
        if kind != "string":
            raise ValueError(f"{token} is {value!r}, which is not a string")
        yield token, value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"{text[position : position + 20]!r} cannot be read")
        position = found.end()
        kind = str(found.lastgroup)
        if kind == "end":
            return
        value = found[kind]
        yield kind, _unescaped(value[1:-1]) if kind == "string" else value


def _unescaped(text: str) -> str:
    def one(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = found.groups()
        if octal is not None:
            return bytes([int(octal, 8) & 0xFF])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        return _LETTERS.get(letter, letter)

    return os.fsdecode(_ESCAPE.sub(one, text.encode("utf-8", "surrogateescape")))


def _quoted(path: str) -> str:
    out = []
    for byte in os.fsencode(path):
        if byte in b'"\\':
            out.append("\\" + chr(byte))
        else:
            out.append(chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    return f'"{"".join(out)}"'


def write_state(
    folder: str,
    prefixes: Sequence[str],
    *,
    name: str = STATE_NAME,
    relative: bool = True,
    sync: bool = True,
    files: FileLayer = DISK,
) -> None:
    """Make the state file of a folder name these checkpoints; the last one is the latest.

    With `relative` those inside the folder are named relative to it, so that it may be moved.
    """
    stored = [_stored(prefix, folder, relative) for prefix in prefixes]
    lines = [f"{_LATEST}: {_quoted(stored[-1] if stored else '')}"]
    lines += [f"{_ALL}: {_quoted(each)}" for each in stored]
    path = os.path.join(folder, name)
    replace_file(path, ("\n".join(lines) + "\n").encode("ascii"), sync=sync, files=files)


def _stored(prefix: str, folder: str, relative: bool) -> str:
    if not relative:
        return os.path.abspath(prefix)
    inside = os.path.relpath(prefix, folder or ".")
    return os.path.abspath(prefix) if inside.startswith(os.pardir) else inside


def exists(prefix: str) -> bool:
    """Whether a checkpoint of either format lies under a prefix (a pattern, if of format V1 in parts)."""
    return (
        os.path.isfile(index_path(prefix))
        or os.path.isfile(prefix)
        or any(map(os.path.isfile, glob.glob(prefix)))
    )


def latest_checkpoint(folder: str, name: str = STATE_NAME) -> str | None:
    """Return the prefix of the newest checkpoint that the state file of a folder names and that is there.

    A checkpoint that has moved with its folder is found, though the file may name the old place. Raises
    DataLossError where the state file cannot be read.

    >>> fe.train.latest_checkpoint("nowhere") is None
    True
    """
    state = read_state(folder, name)
    if state is None:
        return None
    for prefix in filter(None, (state.latest, *reversed(state.all))):
        for place in (prefix, os.path.join(folder, os.path.basename(prefix))):
            if exists(place):
                return place
    return None
