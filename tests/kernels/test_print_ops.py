"""The texts that graphs print, where they print them, and how often."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError
from flowengine.core.files.access import files_of
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io import files as printing
from flowengine.resources.container import ResourceManager, StepContainer


def _context(file_access: str = "all") -> KernelContext:
    return KernelContext(
        resources=ResourceManager(), step_container=StepContainer(), files=files_of(file_access)
    )


def test_print_passes_its_input_on_and_stops_at_first_n(capsys: pytest.CaptureFixture[str]) -> None:
    ctx = _context()
    node = Node("p", "Print")
    x = np.array([[1, 2], [3, 4]])
    for _ in range(3):
        out = printing.print_(x, (x, b"a"), message=b"hello ", first_n=2, summarize=3, node=node, ctx=ctx)
        assert out is x
    assert capsys.readouterr().err == "hello [[1 2][3...]...][a]\n" * 2


def test_print_v2_writes_to_the_stream_that_it_is_told(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def write(stream: bytes, end: bytes = b"\n") -> None:
        printing.print_v2("gr\u00fc\u00df".encode(), output_stream=stream, end=end, ctx=_context())

    write(b"stdout")
    write(b"stderr", b"!")
    captured = capsys.readouterr()
    assert captured.out == "gr\u00fc\u00df\n"
    assert captured.err == "gr\u00fc\u00df!"
    with caplog.at_level(logging.INFO, "flowengine"):
        write(b"log(info)")
        write(b"log(error)")
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "gr\u00fc\u00df"),
        ("ERROR", "gr\u00fc\u00df"),
    ]
    path = tmp_path / "log.txt"
    write(b"file://" + str(path).encode())
    write(b"file://" + str(path).encode())
    assert path.read_text(encoding="utf-8") == "gr\u00fc\u00df\n" * 2
    with pytest.raises(InvalidArgumentError, match="Unknown output stream 'nowhere'"):
        write(b"nowhere")
    with pytest.raises(NotFoundError, match="missing"):
        write(b"file://" + str(tmp_path / "missing" / "x").encode())


@pytest.mark.parametrize("access", ["none", "read"])
def test_files_are_written_only_where_that_is_allowed(access: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with pytest.raises(PermissionDeniedError, match="file_access"):
        printing.print_v2(b"x", output_stream=b"file://" + str(path).encode(), end=b"", ctx=_context(access))
    assert not path.exists()


def test_a_timestamp_is_now(run_op: Callable[..., Any]) -> None:
    (stamp,) = run_op("Timestamp")
    assert stamp.dtype == np.float64
    assert stamp > 1.7e9
