"""Names and sizes: a class name means one thing, and nothing is so long that it wants a table of contents."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import Final

from tests.sources import PRODUCT, modules, sources

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
    "Stepper": {"flowengine/tools/debugging/blocking.py", "flowengine/tools/debugging/stepper.py"},
    "Writer": {"flowengine/tools/summaries/blocking.py", "flowengine/tools/summaries/writer.py"},
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


def test_files_are_short() -> None:
    counted = ((name, text.count("\n")) for name, text in sources(*PRODUCT))
    assert {name for name, lines in counted if lines > FILE_LINES} - GENERATED == set()


def test_folders_are_not_full() -> None:
    counts: dict[str, int] = defaultdict(int)
    for name, _ in sources(*PRODUCT):
        counts[name.rpartition("/")[0]] += not name.endswith("__init__.py")
    assert {folder for folder, count in counts.items() if count > FOLDER_FILES} == set()


def test_classes_and_functions_are_short() -> None:
    found = [(name, each) for name, module in modules(*PRODUCT).items() for each in module.definitions]
    classes = {f"{name}:{each.name}" for name, each in found if each.is_class and each.lines >= CLASS_LINES}
    functions = {f"{name}:{each.name}" for name, each in found if each.body_lines > FUNCTION_LINES}
    assert classes == set()
    assert functions == set()


def test_a_class_name_means_one_thing() -> None:
    """Nested and private classes count, and an underscore alone makes no other name."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, module in modules(*PRODUCT).items():
        for each in module.classes():
            places[each.name.lstrip("_")].append(name)
    repeated = {name: set(files) for name, files in places.items() if len(files) > 1}
    assert repeated == FACADES


def is_participle(name: str) -> bool:
    """Whether a class name is one word that says what happens, not what something is."""
    name = name.lstrip("_")
    if name in NOUNS or len(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)) > 1:
        return False
    return name.lower() in IRREGULAR or name.endswith(("ing", "ed"))


def test_a_participle_alone_is_no_class_name() -> None:
    assert [is_participle(name) for name in ("_Folding", "Lent", "Packed")] == [True] * 3
    assert [is_participle(name) for name in ("Pooling", "PackedConstants", "Gradient")] == [False] * 3
    names = {
        f"{name}:{each.name}": each.name
        for name, module in modules(*PRODUCT).items()
        for each in module.classes()
    }
    assert {place for place, name in names.items() if is_participle(name)} == set()
    assert set(names.values()) >= NOUNS, "a word listed that no class is named by"


def test_expressions_give_back_what_they_took() -> None:
    """Python 3.11.0 to 3.11.4 match `(?:...)*+` wrongly, and Debian 12 has 3.11.2."""
    possessive = re.compile(r"(?:[])}]|\\[dswDSW])[*+?]\+")
    found = []
    for path, source in sources(*PRODUCT):
        if "import re\n" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if "\n    " not in text and possessive.search(text):
                    found.append(f"{path}:{node.lineno}")
    assert not found
