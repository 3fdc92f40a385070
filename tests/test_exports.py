"""Every public name resolves, is listed once, and is what its module says."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import flowengine


def test_every_name_of_the_facade_resolves() -> None:
    assert len(set(flowengine.__all__)) == len(flowengine.__all__)
    for name in flowengine.__all__:
        assert getattr(flowengine, name) is getattr(flowengine, name)
    assert set(flowengine.__all__) <= set(dir(flowengine))


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
