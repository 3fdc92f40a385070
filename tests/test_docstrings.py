"""Docstrings of every public function: shapes, types and errors, in its own or its module's."""

from __future__ import annotations

import inspect
import pydoc
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, Final

import pytest

import flowengine as fe

#: Words and forms that tell of shapes: (N, D), (), rank 2, elementwise ...
SHAPES: Final = re.compile(
    r"\(\)|\([A-Za-z_]\w*(,| \*| \+)[^)]*\)|\((n|N|batch)\)|\[None|\bshapes?\b|\bscalar|\brank|\bax[ie]s\b|"
    r"\belement|\brows?\b|\bbroadcast|\bmatri|\bsingle|\bimages\b|\bone number",
    re.IGNORECASE,
)
#: Words that tell of types.
TYPES: Final = re.compile(
    r"\bfloat|\binteger|\bbool|\bstring|\bnumbers?\b|\bnumeric|\bcomplex|\bu?int\d+|\bdtype|\btypes?\b",
    re.IGNORECASE,
)
#: Packages whose functions make tensors.
BUILDING: Final = ("flowengine.graphs.functions.", "flowengine.client.")


def public() -> Iterator[tuple[str, Any]]:
    """(name as it is written, function or class) of the package and of its rooms that it names."""
    for name in dir(fe):
        if name.startswith("_"):
            continue
        found = getattr(fe, name)
        if inspect.ismodule(found):
            if found.__name__.startswith("flowengine"):
                for inner in getattr(found, "__all__", dir(found)):
                    yield f"{name}.{inner}", getattr(found, inner, None)
        else:
            yield name, found


def functions() -> dict[str, Callable[..., Any]]:
    """Public functions and classes that this package defines."""
    return {
        name: found
        for name, found in public()
        if not name.rpartition(".")[2].startswith("_")
        and (inspect.isfunction(found) or inspect.isclass(found))
        and found.__module__.startswith("flowengine")
    }


FUNCTIONS: Final = functions()
TENSORS: Final = sorted(
    name
    for name, found in FUNCTIONS.items()
    if inspect.isfunction(found) and found.__module__.startswith(BUILDING)
)


def said(function: Callable[..., Any]) -> str:
    """A docstring with those of its module and its package, which say what is common to all in them."""
    module = function.__module__
    around = [sys.modules[name].__doc__ or "" for name in (module, module.rpartition(".")[0])]
    return "\n".join([function.__doc__ or "", *around])


def test_there_are_functions() -> None:
    assert len(TENSORS) > 300


def test_everything_public_has_a_docstring() -> None:
    assert [name for name, found in FUNCTIONS.items() if not (found.__doc__ or "").strip()] == []


@pytest.mark.parametrize("name", TENSORS)
def test_shapes_and_types_are_said(name: str) -> None:
    text = said(FUNCTIONS[name])
    assert SHAPES.search(text), f"{name} says nothing of shapes"
    assert TYPES.search(text), f"{name} says nothing of types"


def test_what_raises_by_itself_says_so() -> None:
    """A function with a `raise` of its own names the error, itself or with what is around it."""
    raising = re.compile(r"^\s+raise \w", re.MULTILINE)
    silent = [
        name
        for name in TENSORS
        if raising.search(inspect.getsource(FUNCTIONS[name])) and "Error" not in said(FUNCTIONS[name])
    ]
    assert silent == []


#: {part of a docstring: how many public callables lack it}. Numbers only go down: lower them with each mend.
LACKING_MAX: Final = {"arguments": 0, "errors": 0, "example": 2}
#: Names the node or the scope that a function adds, in every function; docs/building.md says so once.
_COMMON: Final = frozenset({"self", "cls", "name"})


@dataclass(frozen=True)
class Documented:
    """A public function, class or method, with the docstrings that a reader finds about it.

    called      its name without the class or module
    parameters  the names of its arguments
    own         its docstring; for a class, that of its constructor as well
    around      the docstrings of its class, module and package, and of the names that `own` refers to
    is_record   whether it only holds values, and raises nothing
    """

    called: str
    parameters: frozenset[str]
    own: str
    around: str
    is_record: bool = False

    def lacks(self) -> Iterator[str]:
        text = self.own + self.around
        if any(not re.search(rf"\b{name}\b", text) for name in self.parameters):
            yield "arguments"
        if self.parameters and not self.is_record and "Error" not in text:
            yield "errors"
        used = re.compile(rf"^\s*(?:>>>|\.\.\.) .*\b{self.called}\b", re.MULTILINE)
        if ">>> " not in self.own and not used.search(self.around):
            yield "example"


#: A public name that a docstring refers to, whose description is not repeated.
_REFERENCE: Final = re.compile(r"`(flowengine\.[\w.]+)`")


def referred(text: str) -> str:
    """Return the docstrings of the public names that a docstring refers to."""
    found = (pydoc.locate(name.rstrip(".")) for name in _REFERENCE.findall(text))
    return "\n".join(getattr(each, "__doc__", None) or "" for each in found)


def parameters(function: Callable[..., Any]) -> frozenset[str]:
    try:
        names = inspect.signature(function).parameters
    except ValueError:  # a class whose constructor is written in C
        return frozenset()
    return frozenset(name for name in names if name not in _COMMON and not name.startswith("_"))


def documented() -> dict[str, Documented]:
    """Return public functions, classes and methods by name; errors, enumerations and dictionaries left out.

    A method is listed once, under the first class that has it.
    """
    found: dict[str, Documented] = {}
    seen: set[Any] = set()
    for name, value in FUNCTIONS.items():
        own, around = value.__doc__ or "", said(value).removeprefix(value.__doc__ or "")
        if inspect.isclass(value):
            if issubclass(value, BaseException | Enum | dict):
                continue
            for each, function in methods(value):
                if function not in seen:
                    seen.add(function)
                    text = inspect.getdoc(getattr(value, each)) or ""
                    beside = own + around + referred(text)
                    found[f"{name}.{each}"] = Documented(each, parameters(function), text, beside)
            own += value.__init__.__doc__ or ""
        is_record = issubclass(value, tuple) if inspect.isclass(value) else False
        is_record |= is_dataclass(value) and not hasattr(value, "__post_init__")
        beside = around + referred(own)
        found[name] = Documented(name.rpartition(".")[2], parameters(value), own, beside, is_record)
    return found


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a class and its bases here, but no override without docstring."""
    for base in kind.__mro__:
        if base.__module__.startswith("flowengine"):
            for name, member in vars(base).items():
                function = getattr(member, "__func__", member)
                if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
                    yield name, function


def test_docstrings_describe_arguments_errors_and_an_example() -> None:
    lacking: dict[str, list[str]] = {part: [] for part in LACKING_MAX}
    for name, each in documented().items():
        for part in each.lacks():
            lacking[part].append(name)
    more = {part: names for part, names in lacking.items() if len(names) > LACKING_MAX[part]}
    assert more == {}, "more public callables than before lack a part of their docstring"
