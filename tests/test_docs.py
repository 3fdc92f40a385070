"""The Python in README and docs runs, in the order of the page, and fails where the page says so."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import types
from pathlib import Path
from typing import Any

import pytest
import trio

import flowengine as fe

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RAISES = re.compile(r"#.*raises (\w+)(?:: (.*))?$")


def blocks(page: Path) -> list[tuple[int, str]]:
    """(line, source) of each block."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start()) + 2, m.group(1)) for m in _BLOCK.finditer(text)]


def execute(page: Path, line: int, source: str, names: dict[str, Any]) -> None:
    """Run statement by statement; one whose line ends in `# raises Error: text` must raise that."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        module = ast.increment_lineno(ast.Module([statement], []), line - 1)
        code = compile(module, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert statement.end_lineno is not None
        expected = _RAISES.search(lines[statement.end_lineno - line])
        if expected is None:
            run(code, names)
        else:
            with pytest.raises(getattr(fe.errors, expected[1]), match=re.escape(expected[2] or "")):
                run(code, names)


def run(code: types.CodeType, names: dict[str, Any]) -> None:
    if code.co_flags & inspect.CO_COROUTINE:

        async def main() -> None:
            await types.FunctionType(code, names)()

        trio.run(main)
    else:
        exec(code, names)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The models and data that pages use; a copy, since a page may write beside them.
    shutil.copytree(ROOT / "docs" / "examples", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for line, source in blocks(page):
        execute(page, line, source, names)
    for value in names.values():
        if isinstance(value, fe.blocking.Session):
            value.close()
        elif isinstance(value, fe.Session):
            trio.run(value.close)


def test_the_configuration_table_is_complete() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \|", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE
    )
    fields = list(fe.Config.__dataclass_fields__)
    assert [field for field, _ in rows] == fields
    assert [variable for _, variable in rows] == [f"FLOWENGINE_{field.upper()}" for field in fields]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / ".mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in navigation
