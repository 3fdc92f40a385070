"""Progress in a terminal: what the program prints stays as it is, and lines of loops stay below it."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.train.progress import terminal
from flowengine.train.progress.screens import LogLines, NoScreen, NotebookLine
from flowengine.train.progress.terminal import PassingStream, TerminalScreen, behind, screen_of
from flowengine.train.progress.wording import ProgressStatus
from tests.tools.terminals import Terminal


@contextmanager
def watching() -> Iterator[Terminal]:
    """A terminal that both streams of the program are."""
    made = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "xterm")
        patch.setenv("NO_COLOR", "1")
        patch.setattr(sys, "stdout", made)
        patch.setattr(sys, "stderr", made)
        patch.setattr(terminal, "_is_same_terminal", lambda stream, other: stream is other)
        yield made
        assert sys.stdout is made
        assert sys.stderr is made


def status(step: int, total: int | None = None, **more: Any) -> ProgressStatus:
    return ProgressStatus(step, total, **more)


def test_a_line_is_drawn_over_itself_and_stays_at_the_end() -> None:
    with watching() as shown:
        screen = screen_of(sys.stderr)
        assert isinstance(screen, TerminalScreen)
        loop = object()
        screen.show(loop, status(5, 10, rate=2.0))
        assert shown.rows == ["step 5/10 ━━━━━━━━━━──────────  2 steps/s  2 s left"]
        screen.show(loop, status(6))
        assert shown.rows == ["step 6"]
        assert shown.has_cursor  # also after a kill
        screen.close(loop, status(7, is_complete=True, seconds=3))
        assert shown.rows == ["step 7  took 3 s", ""]
        assert shown.has_cursor


def test_what_a_program_prints_stands_above_the_lines() -> None:
    with watching() as shown:
        screen, first, second = TerminalScreen.of(shown), object(), object()
        screen.show(first, status(1))
        screen.show(second, status(2, label="epoch 1/2"))
        assert shown.rows == ["step 1", "epoch 1/2 step 2"]
        print("a text that is longer than the lines are")
        assert shown.rows == ["a text that is longer than the lines are", ""]
        screen.show(first, status(3))
        assert shown.rows[1:] == ["step 3", "epoch 1/2 step 2"]
        print("no newline yet", end="")
        screen.show(first, status(4))
        assert shown.rows[1:] == ["no newline yet"]
        print(" but now", file=sys.stderr)
        screen.show(first, status(5))
        assert shown.rows[1:] == ["no newline yet but now", "step 5", "epoch 1/2 step 2"]
        screen.close(first, status(5))
        screen.close(first, status(6))  # once only
        assert shown.rows[2:] == ["step 5", "epoch 1/2 step 2"]
        assert isinstance(sys.stdout, PassingStream)
        screen.close(second, status(9))
        assert shown.rows[2:] == ["step 5", "step 9", ""]


def test_streams_are_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with watching() as shown:
        screen, loop = screen_of(sys.stderr), object()
        handler = logging.StreamHandler(shown)
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
        screen.show(loop, status(1))
        assert screen_of(sys.stderr) is screen  # the next loop's
        assert behind(sys.stderr) is shown
        logging.getLogger().warning("said")
        assert shown.rows == ["said", ""]
        screen.show(loop, status(2))
        assert sys.stdout.encoding == "utf-8"
        sys.stdout.writelines(["a\n", "b\n"])
        assert shown.rows == ["said", "a", "b", ""]
        screen.show(loop, status(2))
        with pytest.raises(OSError, match="fileno"):
            sys.stdout.fileno()  # what writes by another way finds no line there
        assert shown.rows == ["said", "a", "b", ""]
        mine = io.StringIO()
        monkeypatch.setattr(sys, "stdout", mine)
        screen.close(loop, status(3))
        assert sys.stdout is mine
        assert handler.stream is shown
        monkeypatch.setattr(sys, "stdout", shown)


def test_a_pipe_beside_the_terminal_gets_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with watching() as shown:
        piped = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", piped)
            screen, loop = screen_of(sys.stderr), object()
            screen.show(loop, status(1))
            assert sys.stdout is piped
            print("a result")
            assert (shown.rows, piped.getvalue()) == (["step 1"], "a result\n")
            screen.close(loop, status(2))
            assert sys.stdout is piped
        assert (shown.rows, piped.getvalue()) == (["step 2", ""], "a result\n")


def test_texts_keep_their_length_and_their_codes() -> None:
    with watching() as shown:
        written: list[str] = []
        screen, loop = screen_of(sys.stderr), object()
        screen.show(loop, status(1))
        write = shown.write

        def record(text: str) -> int:
            written.append(text)
            return write(text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shown, "write", record)
            text = "\x1b[1m[red] 12%\x1b[0m\t" + "a word " * 30
            assert sys.stdout.write(text) == len(text)
            sys.stdout.flush()
        assert written[-1] == text
        screen.close(loop, status(2))


def test_more_loops_than_rows_leave_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "4")
    with watching() as shown:
        screen = TerminalScreen.of(shown)
        for loop in range(6):
            screen.show(loop, status(loop))
        assert [row.strip() for row in shown.rows] == ["step 0", "step 1", "step 2", "..."]
        print("said")
        assert shown.rows == ["said", ""]
        for loop in range(6):
            screen.close(loop, status(loop))
        assert shown.rows == ["said", *(f"step {loop}" for loop in range(6)), ""]


_TEXTS = st.text("ab \n", max_size=5)
_DEEDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["show", "close"])) | _TEXTS, max_size=30)


@given(_DEEDS)
def test_every_text_comes_out_whole(deeds: list[Any]) -> None:
    """Without the lines that loops leave, the terminal has the texts alone, in their order."""
    made, bare = Terminal(), Terminal()
    before = sys.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "_is_same_terminal", lambda stream, other: stream is other)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "80")
        sys.stdout = made
        try:
            screen, open_loops = TerminalScreen(made), set()
            for deed in deeds:
                if isinstance(deed, str):
                    sys.stdout.write(deed)
                    bare.write(deed)
                elif deed[1] == "show":
                    screen.show(deed[0], status(7, label=f"<{deed[0]}>"))
                    open_loops.add(deed[0])
                elif deed[0] in open_loops:
                    screen.close(deed[0], status(9, label=f"<{deed[0]}>"))
                    open_loops.discard(deed[0])
            for each in open_loops:
                screen.close(each, status(9, label=f"<{each}>"))
            assert sys.stdout is made
        finally:
            sys.stdout = before
    text = "\n".join(row.rstrip() for row in made.rows)
    assert "step 7" not in text
    # A loop that ends within a line of the program's leaves its own line below.
    left = re.sub(r"(?m)^<\d> step 9$", "", text)
    assert "".join(left.split()) == "".join("".join(bare.rows).split())


def test_who_cannot_be_reached_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(screen_of(None), NoScreen)
    closed = io.StringIO()
    closed.close()
    assert isinstance(screen_of(closed), NoScreen)

    class Broken(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    screen = screen_of(Broken())
    screen.show(1, status(1))
    screen.close(1, status(1))
    gone = io.StringIO()
    lines = screen_of(gone)
    assert isinstance(lines, LogLines)
    gone.close()
    lines.show(1, status(1))
    lines.close(1, status(2))


def test_a_dumb_terminal_and_a_pipe_have_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    made = Terminal()
    screen = screen_of(made)
    screen.show(1, status(1, 5))
    screen.close(1, status(2, 5))  # an error says the rest
    screen.close(1, status(5, 5, is_complete=True, seconds=61, rate=4.0))
    assert made.rows == ["step 1 of 5", "step 5 of 5, 4 steps/s, took 1:01", ""]


def test_a_stream_without_bars_has_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    made = Terminal()
    made.encoding = "latin-1"
    screen = TerminalScreen(made)
    screen.show(1, status(5, 10))
    assert "step 5/10 ##########.........." in made.rows[0]
    screen.close(1, status(5, 10))


@pytest.mark.parametrize("without", ["", "1"])
def test_colour_is_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    monkeypatch.setenv("NO_COLOR", without)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    written: list[str] = []
    made = Terminal()
    monkeypatch.setattr(made, "write", written.append)
    TerminalScreen(made).show(1, status(5, 10))
    assert ("\x1b[36m" in "".join(written)) is (not without)


def test_a_notebook_updates_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []

    class Handle:
        def update(self, bundle: Any, *, raw: bool) -> None:
            said.append(("update", bundle["text/plain"]))
            if len(said) == 4:
                raise RuntimeError("no front end")

    def display(bundle: Any, *, raw: bool, display_id: bool) -> Handle:
        said.append(("display", bundle["text/plain"]))
        return Handle()

    class Shell:
        kernel = object()

    module = type(sys)("IPython")
    inner = type(sys)("IPython.display")
    module.get_ipython = Shell  # type: ignore[attr-defined]
    inner.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    screen = screen_of(sys.stderr)
    assert isinstance(screen, NotebookLine)
    screen.show("a", status(1))
    screen.show("b", status(2))
    screen.close("a", status(3))
    screen.close("b", status(4))
    assert said == [("display", "step 1"), ("display", "step 2"), ("update", "step 3"), ("update", "step 4")]


def test_the_same_terminal_is_known_by_its_file(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    main_end, other_end = pty.openpty()
    try:
        with open(other_end, "w", closefd=False) as one, open(other_end, "w", closefd=False) as two:
            assert terminal._is_same_terminal(one, two)
            with open(tmp_path / "file", "w") as file:
                assert not terminal._is_same_terminal(file, two)
        assert not terminal._is_same_terminal(io.StringIO(), sys.stderr)
        assert not terminal._is_same_terminal(None, sys.stderr)
    finally:
        os.close(main_end)
        os.close(other_end)
