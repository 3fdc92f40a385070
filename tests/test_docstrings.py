"""Docstrings of every public function: shapes, types and errors, in its own or its module's."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
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
