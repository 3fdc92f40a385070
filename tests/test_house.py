"""Names and sizes: a class name means one thing, and nothing is so long that it wants a table of contents."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

#: Classes for other programs have the names of the trio program's classes that they stand for: a program
#: imports one module or the other, and a reader finds the same name in both.
FACADES: Final = {
    "Session": {
        "flowengine/anyio.py",
        "flowengine/asyncio.py",
        "flowengine/blocking.py",
        "flowengine/session.py",
    },
    "Saver": {"flowengine/blocking.py", "flowengine/train/saver.py"},
    "QueueRunners": {"flowengine/blocking.py", "flowengine/train/queue_runners.py"},
}
#: Files written by `make generate`, and tables.
GENERATED: Final = frozenset({"kernels/index.py", "flowengine/ops/index.py", "flowengine/gradients/index.py"})

#: Participles that English has no ending for, as far as a class could be named so.
IRREGULAR: Final = frozenset(
    [
        *("begun", "bent", "bound", "built", "came", "cut", "done", "drawn", "fed", "found", "given", "gone"),
        *(
            "held",
            "kept",
            "known",
            "left",
            "lent",
            "lost",
            "made",
            "met",
            "put",
            "read",
            "seen",
            "sent",
            "set",
        ),
        *("shown", "spent", "split", "taken", "told", "unknown", "worn", "written"),
    ]
)
#: Words that end as participles do and are nouns.
NOUNS: Final = frozenset({"Bookkeeping", "Ordering", "Pooling"})

FILE_LINES: Final = 450
FOLDER_FILES: Final = 26
CLASS_LINES: Final = 400
FUNCTION_LINES: Final = 60


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """(path from the root, text) of each module, links not followed."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("flowengine/kernels/", "flowengine/transport/", "flowengine/ir/proto/")):
                yield name, path.read_text()


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function has below its signature and docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources("flowengine", "kernels", "transport")}


def test_files_are_short() -> None:
    counted = ((name, text.count("\n")) for name, text in sources("flowengine", "kernels", "transport"))
    assert {name for name, lines in counted if lines > FILE_LINES} - GENERATED == set()


def test_folders_are_not_full() -> None:
    counts: dict[str, int] = defaultdict(int)
    for name, _ in sources("flowengine", "kernels", "transport"):
        counts[name.rpartition("/")[0]] += not name.endswith("__init__.py")
    assert {folder for folder, count in counts.items() if count > FOLDER_FILES} == set()


def test_classes_and_functions_are_short(trees: dict[str, ast.Module]) -> None:
    classes: set[str] = set()
    functions: set[str] = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= CLASS_LINES:
                classes.add(f"{name}:{node.name}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > FUNCTION_LINES:
                functions.add(f"{name}:{node.name}")
    assert classes == set()
    assert functions == set()


def test_a_class_name_means_one_thing(trees: dict[str, ast.Module]) -> None:
    """Nested and private classes count, and an underscore alone makes no other name."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(name)
    repeated = {name: set(files) for name, files in places.items() if len(files) > 1}
    assert repeated == FACADES


def is_participle(name: str) -> bool:
    """Whether a class name is one word that says what happens, not what something is."""
    name = name.lstrip("_")
    if name in NOUNS or len(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)) > 1:
        return False
    return name.lower() in IRREGULAR or name.endswith(("ing", "ed"))


def test_a_participle_alone_is_no_class_name(trees: dict[str, ast.Module]) -> None:
    assert [is_participle(name) for name in ("_Folding", "Lent", "Packed")] == [True] * 3
    assert [is_participle(name) for name in ("Pooling", "PackedConstants", "Gradient")] == [False] * 3
    names = {
        f"{name}:{node.name}": node.name
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert {place for place, name in names.items() if is_participle(name)} == set()
    assert set(names.values()) >= NOUNS, "a word listed that no class is named by"
