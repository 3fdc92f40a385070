"""The attributes of our ops beside those of TensorFlow's, whose OpDefs were recorded.

`tests/data/tensorflow_1_15_attributes.json` has the names of the attributes of each op that 1.15.5 knows too,
`tests/data/tensorflow_2_21_attributes.json` of 2.21.0 also type, allowed values, minimum and default, as
`ir.optext` writes them (tensors by type only).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.ir.argdef import AttrDef
from flowengine.ir.graph import Node
from flowengine.ir.graphdef import write_node
from flowengine.ir.proto import NodeDef
from flowengine.ir.traits import LaterAttrs, Newer
from flowengine.ops.load import registry

_DATA: Final = Path(__file__).parents[1] / "data"
_FIRST: Final[dict[str, str]] = json.loads((_DATA / "tensorflow_1_15_attributes.json").read_text("utf-8"))
_SECOND: Final[dict[str, str]] = json.loads((_DATA / "tensorflow_2_21_attributes.json").read_text("utf-8"))


def _text(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, bytes):
        return repr(value.decode("latin1"))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _said(attr: AttrDef) -> tuple[str, str]:
    """Type and default."""
    default = f"= {_text(attr.default)}" if attr.has_default and attr.type != "tensor" else ""
    return attr.type, default


def _recorded(op: str) -> dict[str, tuple[str, str]]:
    """{attribute: type and default} as TensorFlow 2.21 has them"""
    found = {}
    for each in _SECOND[op].split("; ") if _SECOND[op] else ():
        name, _, rest = each.partition(": ")
        head, mark, default = rest.partition(" = ")
        found[name] = (head.split(" ")[0], f"= {default}" if mark else "")
    return found


def test_what_tensorflow_1_does_not_know_is_not_written_where_it_has_its_default() -> None:
    for op, known in _FIRST.items():
        definition = registry()[op]
        unknown = {attr.name for attr in definition.attrs} - set(known.split())
        newer = definition.traits.get(Newer)
        names = set(newer.names) if isinstance(newer, Newer) else set()
        assert unknown == names & {attr.name for attr in definition.attrs}, op
        written = NodeDef()
        write_node(written, Node("n", op, attrs=definition.with_defaults({}), op_def=definition))
        assert not unknown & set(written.attr), op


def test_attributes_are_those_of_tensorflow_2() -> None:
    for op in _SECOND:
        ours = {attr.name: _said(attr) for attr in registry()[op].attrs}
        theirs = _recorded(op)
        lacking = {name for name in theirs if name not in ours}
        later = registry()[op].traits.get(LaterAttrs)
        assert lacking == (set(dict(later.values)) if isinstance(later, LaterAttrs) else set()), op
        shared = [name for name in theirs if name in ours]
        assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}, op
