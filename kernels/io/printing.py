"""Print, PrintV2 and Timestamp: what a graph tells whoever watches it run."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Final, TextIO

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.array.identity import summarize_value
from flowengine.kernels.common.file_access import translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel

_LEVELS: Final = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}
_FILE: Final = "file://"


class PrintCount:
    """How often one Print node has printed in the life of its task's resources."""

    __slots__ = ("printed",)

    def __init__(self) -> None:
        self.printed = 0


def _text(data: Value) -> str:
    if isinstance(data, np.ndarray):
        data = data[()]
    if not isinstance(data, bytes):
        raise InvalidArgumentError("the text to print must be a single string")
    return data.decode("utf-8", "backslashreplace")


@kernel("Print", heavy=False)
def print_(
    x: Value,
    data: tuple[Value, ...],
    *,
    message: bytes,
    first_n: int,
    summarize: int,
    node: Node,
    ctx: KernelContext,
) -> Value:
    """x; on the way, one line on stderr: the message and the first elements of each datum.

    first_n     from this many lines on nothing is printed; -1: always
    summarize   elements shown of each datum; -1: all
    """
    if first_n >= 0:
        count = ctx.resources.lookup_or_create("", f"print count of {node.name}", PrintCount, PrintCount)
        if count.printed >= first_n:
            return x
        count.printed += 1
    line = _text(message) + "".join(f"[{summarize_value(d, summarize)}]" for d in data)
    sys.stderr.write(line + "\n")
    return x


@kernel("PrintV2", heavy=False)
def print_v2(text: Value, *, output_stream: bytes, end: bytes, ctx: KernelContext) -> None:
    """Write the text and `end` to stdout, stderr, a log level (`log(info)`) or the end of `file://path`.

    Raises InvalidArgumentError for another stream, PermissionDeniedError where files may not be written.
    """
    stream = _text(output_stream)
    line = _text(text) + _text(end)
    # Looked up now: a program may have replaced them since the import.
    streams: dict[str, TextIO] = {"stderr": sys.stderr, "stdout": sys.stdout}
    if stream in streams:
        streams[stream].write(line)
        streams[stream].flush()
    elif stream in _LEVELS:
        logging.getLogger("flowengine").log(_LEVELS[stream], "%s", line.rstrip("\n"))
    elif stream.startswith(_FILE):
        path = os.fsdecode(output_stream[len(_FILE) :])
        try:
            with ctx.files.append(path) as file:
                file.write(line.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise translated(error, path) from error
    else:
        raise InvalidArgumentError(
            f"Unknown output stream {stream!r}: give stdout, stderr, {', '.join(_LEVELS)} or file://path"
        )


@kernel("Timestamp", heavy=False)
def timestamp() -> np.float64:
    """Seconds since 1970."""
    return np.float64(time.time())
