"""Transcripts of README and tutorials are what a shell says; programs in them are those of docs/examples."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.transcripts import EXAMPLES, ROOT, Exchange, Said, exchanges, fits, play, watch

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
#: The other pages of users that show commands with their output, or programs of docs/examples.
OTHERS = [
    ROOT / "docs" / f"{name}.md"
    for name in (*("comparing", "debugging", "how-to", "install", "porting", "profiling", "shell", "tables"),)
]
#: The pages that show programs of docs/examples, or name them.
SHOWING = [*OTHERS, *TUTORIALS, ROOT / "docs" / "serving.md"]
PAGES = [ROOT / "README.md", ROOT / "docs" / "images" / "terminal.txt", *OTHERS, *TUTORIALS]
WATCHED = [page for page in PAGES if exchanges(page.read_text(), on_terminal=True)]
#: What a page's commands need; `make examples` plays these in an environment of its own.
#: {command: a module that the services need which it runs}
SERVERS = {"uvicorn": "starlette", "hypercorn": "hypercorn", "flowengine serve": "uvicorn"}
#: {a part of a command: the package without which it is not played}
PACKAGES = {".parquet": "pyarrow"}

#: A program, or a part of one, under the name of its file.
_PROGRAM = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_BLOCKS = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
WORDS_MAX = 300


def test_a_transcript_is_read() -> None:
    text = "a\n```console\n$ one \\\n  more\nout\n\n$ two\n```\n```console\n$ three\n...\n```\n"
    assert exchanges(text) == [
        Exchange(3, "one \\\n  more", ("out", "")),
        Exchange(7, "two", ()),
        Exchange(10, "three", ("...",)),
    ]
    with pytest.raises(ValueError, match="line 2: a transcript begins with a command"):
        exchanges("```console\nout\n```\n")


@pytest.mark.parametrize(
    ("printed", "text", "right"),
    [
        (["a ... c", "d"], "a b c\nd\n", True),
        (["a ... c", "d"], "a b c  \nd\n\n", True),
        (["a ... c"], "a b\nc\n", False),
        (["a", "...", "d"], "a\nb\nc\nd\n", True),
        (["a", "...", "d"], "a\nd\n", True),
        (["a", "...", "d"], "a\nb\n", False),
        (["a+"], "aa\n", False),
        ([], "", True),
        ([], "a\n", False),
        (["..."], "", True),
    ],
)
def test_dots_stand_for_what_may_differ(printed: list[str], text: str, right: bool) -> None:
    exchange = Exchange(1, "x", printed)
    assert fits(exchange, Said(text, 0)) is right
    assert not fits(exchange, Said(text, 1))


def test_commands_share_a_shell_and_what_fails_is_told(tmp_path: Path) -> None:
    said = play(["cd ..; x=2", "echo $x >&2; (exit 3)", "echo port 8000; sleep 1000 &"], tmp_path / "copy")
    assert said == [Said("", 0), Said("2\n", 3), Said("port 8000\n", 0)]
    assert play(["echo a; exit 4", "echo b"], tmp_path / "other") == [Said("a\n", 4), Said("a\n", 4)]


def can_play(command: str) -> bool:
    """Return whether the packages that a command needs are installed."""
    needed = [package for part, package in PACKAGES.items() if part in command]
    return all(importlib.util.find_spec(package) is not None for package in needed)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    shown = [each for each in exchanges(page.read_text()) if can_play(each.command)]
    commands = [each.command for each in shown]
    for server, module in SERVERS.items():
        if any(server in command for command in commands) and importlib.util.find_spec(module) is None:
            pytest.skip(f"{server} is not in this environment: make examples has one")
    assert shown
    for exchange, said in zip(shown, play(commands, tmp_path), strict=True):
        where = f"{page.name}, line {exchange.line}: $ {exchange.command}"
        assert fits(exchange, said), f"{where}\n{said.text}exit status {said.status}"


@pytest.mark.slow
@pytest.mark.parametrize("page", WATCHED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_shows_what_is_on_a_terminal(page: Path, tmp_path: Path) -> None:
    for exchange in exchanges(page.read_text(), on_terminal=True):
        seen = watch(exchange.command, tmp_path / str(exchange.line))
        where = f"{page.name}, line {exchange.line}: $ {exchange.command}"
        assert fits(exchange, seen), f"{where}\n{seen.text}exit status {seen.status}"


def test_a_terminal_shows_what_is_drawn_last(tmp_path: Path) -> None:
    command = r"printf 'one\rtwo\n\033[36mth\033[0mree\033[K\n'; tput cols; (exit 3)"
    seen = watch(command, tmp_path)
    assert (seen.text.split(), seen.status) == (["two", "three", "80"], 3)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_is_short(page: Path) -> None:
    words = re.findall(r"\w[\w'-]*", _BLOCKS.sub("", page.read_text()))
    assert len(words) <= WORDS_MAX


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_a_page_shows_programs_that_are_there(page: Path) -> None:
    text = page.read_text()
    for name, program in _PROGRAM.findall(text):
        assert program in (EXAMPLES / name).read_text(), f"{name} has no such lines:\n{program}"


def test_every_program_is_shown_or_named_by_a_page() -> None:
    text = "".join(page.read_text() for page in SHOWING)
    for program in EXAMPLES.iterdir():
        if program.suffix in {".py", ".ipynb"}:
            assert program.name in text, f"no page says what {program.name} is for"
