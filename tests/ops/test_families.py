"""An op's definition, its kernels and its record lie in files of one name: `math/unary.py` in three trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from flowengine.kernels.index import OPS as KERNELS
from flowengine.ops.index import OPS as DEFINITIONS
from tests.oprecords import found

#: The folders of `ops/`. What lies elsewhere in `kernels/` belongs to a library, which has other kernels of
#: the same ops in files of its own.
_FAMILIES: Final = frozenset(module.partition(".")[0] for module in DEFINITIONS)
_DEFINED: Final = frozenset(op for ops in DEFINITIONS.values() for op in ops.split())


def _in_families(index: Mapping[str, str]) -> dict[str, set[str]]:
    """{module in a family: ops}, without ops that the engine makes for itself and that `ops/` lacks."""
    own = {module: set(ops.split()) & _DEFINED for module, ops in index.items()}
    return {module: ops for module, ops in own.items() if ops and module.partition(".")[0] in _FAMILIES}


def _homes(index: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """{op: its module}"""
    return {op: module for module, ops in index.items() for op in ops}


_DEFINED_IN: Final = _homes(_in_families(DEFINITIONS))
_COMPUTED_IN: Final = _homes(_in_families(KERNELS))


def test_an_op_and_its_kernels_are_in_files_of_one_name() -> None:
    apart = {
        op: (_DEFINED_IN[op], module)
        for module, ops in _in_families(KERNELS).items()
        for op in ops
        if _DEFINED_IN[op] != module
    }
    assert not apart, f"{{op: (where it is defined, where its kernels are)}}: {apart}"


def test_an_op_and_its_record_are_in_files_of_one_name() -> None:
    said = _homes(found.OPS)
    apart = {
        op: (_COMPUTED_IN.get(op), module) for op, module in said.items() if _COMPUTED_IN.get(op) != module
    }
    assert not apart, f"{{op: (where its kernels are, where its record is)}}: {apart}"


def test_every_op_with_a_kernel_is_recorded_or_excused() -> None:
    missing = _COMPUTED_IN.keys() - _homes(found.OPS).keys()
    assert not missing, (
        "write a record in tests/oprecords/<family>/, or say there in EXCUSED why there is none"
    )


def test_a_file_that_one_tree_has_is_in_the_others() -> None:
    """But for definitions of ops that have no kernel."""
    computed = set(_in_families(KERNELS))
    assert computed <= set(_in_families(DEFINITIONS))
    assert set(found.OPS) == computed
    assert all(found.OPS.values()), "a file of records says something"


def test_no_kernel_is_a_librarys_alone() -> None:
    """A kernel in front has one behind it, in the family of its op; what the engine makes for it aside."""
    places: dict[str, set[str]] = {}
    for module, ops in KERNELS.items():
        for op in ops.split():
            places.setdefault(op, set()).add(module.partition(".")[0])
    assert [op for op, found_in in places.items() if op[0] != "_" and not found_in & _FAMILIES] == []


def test_every_op_has_one_home_and_one_record() -> None:
    assert len(_homes(_in_families(DEFINITIONS))) == sum(len(ops.split()) for ops in DEFINITIONS.values())
    assert len(_homes(found.OPS)) == sum(map(len, found.OPS.values()))


def test_ops_lie_in_families(root: Path) -> None:
    """Modules that several families share lie beside them, and define no op."""
    shared = (root / "flowengine" / "ops").glob("*.py")
    assert [path.name for path in shared if "\ndefine(" in path.read_text(encoding="utf-8")] == []
