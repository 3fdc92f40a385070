"""Every public name resolves, is listed once, and is what its module says."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import flowengine


def test_every_name_of_the_facade_resolves() -> None:
    assert len(set(flowengine.__all__)) == len(flowengine.__all__)
    for name in flowengine.__all__:
        assert getattr(flowengine, name) is getattr(flowengine, name)
    assert dir(flowengine) == sorted(flowengine.__all__)


def test_the_module_itself_has_no_public_name_besides() -> None:
    """All names that the module imports for itself are private, as static completion sees them too."""
    tree = ast.parse(Path(flowengine.__file__).read_text())
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name for name in bound if not name.startswith("_")} == {"TYPE_CHECKING", "annotations"}


def test_type_checkers_are_told_every_name() -> None:
    """Names that resolve lazily are among the imports that only type checkers and the docs see."""
    tree = ast.parse(Path(flowengine.__file__).read_text())
    told = {"__version__"}
    for block in tree.body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for node in ast.walk(block):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                assert isinstance(node, ast.ImportFrom)
                if alias.name == "*":
                    told |= set(importlib.import_module(str(node.module)).__all__)
                else:
                    told.add(alias.asname or alias.name)
    assert set(flowengine.__all__) <= told


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("flowengine").__getattr__("no_such_name")


def test_the_facade_has_what_the_documentation_promises() -> None:
    promised = {
        "Config",
        "Graph",
        "RunMetadata",
        "RunOptions",
        "Session",
        "asyncio",
        "blocking",
        "errors",
        "__version__",
    }
    assert promised <= set(flowengine.__all__)


@pytest.mark.parametrize("name", [m.name for m in pkgutil.walk_packages(flowengine.__path__, "flowengine.")])
def test_every_module_imports_and_its_all_is_true(name: str) -> None:
    if name == "flowengine.__main__":
        return
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"
