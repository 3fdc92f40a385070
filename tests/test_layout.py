"""The page of the layout, the floors in pyproject.toml and the tree name the same packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
#: Rooms whose folders are families of ops: those have one page, docs/ops.md.
FAMILIES: Final = ("ops/", "kernels/", "gradients/")

#: Where a path on the page may begin.
BASES: Final = (ROOT, ROOT / "flowengine")


def floors_of_the_linter() -> list[set[str]]:
    """The rooms of each floor that import-linter holds, from the roof down."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = config["tool"]["importlinter"]["contracts"]
    return [{room.strip(" ()") for room in layer.split("|")} for layer in contract["layers"]]


def floors_of_the_page() -> list[set[str]]:
    """The rooms of each row of the page's first table, from the roof down."""
    table = PAGE[PAGE.index("| floor | room |") :].partition("\n\n")[0]
    return [
        {re.sub(r"/$|\.py$", "", room) for room in re.findall(r"`([^`]+)`", row.split("|")[2])}
        for row in table.splitlines()[2:]
    ]


def packages() -> set[str]:
    """Folders of Python files as the page writes them: "kernels/numpy/claims/"."""
    found: set[str] = set()
    for base in (ROOT / "flowengine", ROOT / "kernels", ROOT / "transport"):
        for path in base.rglob("__init__.py"):
            name = path.parent.relative_to(ROOT).as_posix().removeprefix("flowengine").lstrip("/")
            found.add(f"{name}/")
    return found - {"/"}


def families() -> set[str]:
    """The folders of families, in each of the rooms that have them."""
    names = {name.split("/")[1] for name in packages() if re.fullmatch(r"ops/\w+/", name)}
    return {f"{room}{name}/" for room in FAMILIES for name in names}


def test_the_page_and_the_linter_have_the_same_floors() -> None:
    assert floors_of_the_page() == floors_of_the_linter()


def test_each_room_exists_and_is_on_one_floor() -> None:
    listed = [room for floor in floors_of_the_linter() for room in floor]
    entries = {
        path
        for path in (ROOT / "flowengine").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rooms = {path.stem for path in entries if not path.stem.startswith("__")}
    assert sorted(listed) == sorted(rooms)


def test_each_folder_within_a_room_is_on_the_page() -> None:
    nested = {name for name in packages() if name.count("/") > 1} - families()
    assert {name for name in nested if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize("path", sorted({p for p in re.findall(r"`([\w./]+)`", PAGE) if "/" in p[:-1]}))
def test_each_path_on_the_page_exists(path: str) -> None:
    assert any((base / path).exists() for base in BASES), f"docs/layout.md names {path}"
