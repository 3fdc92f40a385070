"""Records between tasks: to the wire and back, and which field is at fault where they are refused."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, get_type_hints

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.cluster import messages as m
from flowengine.core.errors import InvalidArgumentError

_TEXTS = st.text(max_size=5)
_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_TABLES = st.dictionaries(_TEXTS, st.one_of(_NUMBERS, _TEXTS), max_size=2)

#: What a field of each annotation may be, and what it may not.
VALUES: dict[Any, Any] = {
    int: _NUMBERS,
    bool: st.booleans(),
    str: _TEXTS,
    float: st.floats(allow_nan=False),
    float | None: st.one_of(st.none(), st.floats(allow_nan=False)),
    list[int]: st.lists(_NUMBERS, max_size=3),
    list[str]: st.lists(_TEXTS, max_size=3),
    list[dict[str, Any]]: st.lists(_TABLES, max_size=2),
    dict[str, Any]: _TABLES,
    dict[str, int]: st.dictionaries(_TEXTS, _NUMBERS, max_size=2),
    dict[str, str]: st.dictionaries(_TEXTS, _TEXTS, max_size=2),
}
OTHERS: dict[Any, list[Any]] = {
    int: [None, True, 1.0, "1"],
    bool: [None, 1, "true"],
    str: [None, b"a", 1],
    float: [None, "1", True],
    float | None: ["1", True],
    list[int]: [None, 1, (1,), ["1"], [True], [1, None]],
    list[str]: [None, "a", [1], ["a", b"a"]],
    list[dict[str, Any]]: [None, {}, [1], [{1: 2}]],
    dict[str, Any]: [None, [], {1: 2}],
    dict[str, int]: [None, {"a": "1"}, {"a": True}],
    dict[str, str]: [None, {"a": 1}, {1: "a"}],
}
RECORDS = [
    kind
    for kind in vars(m).values()
    if isinstance(kind, type) and issubclass(kind, m.Message) and kind is not m.Message
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_records_come_back(kind: type[m.Message], data: st.DataObject) -> None:
    hints = get_type_hints(kind)
    values = {each.name: data.draw(VALUES[hints[each.name]]) for each in fields(kind)}
    record = kind(**values)
    wire = record.to_wire()
    if wire is None:
        assert kind is m.StepEnd, "a part that ended well is told of by nothing"
        assert not values["error"]
        assert not values["metadata"]
        return
    found = kind.from_wire(msgpack.unpackb(msgpack.packb(wire), strict_map_key=False))
    assert found == record
    assert {each.name: getattr(found, each.name) for each in fields(kind)} == values


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_each_field_is_checked_and_named(kind: type[m.Message]) -> None:
    hints = get_type_hints(kind)
    good: dict[str, Any] = {
        each.name: {int: 1, bool: True, str: "a", float: 1.0, float | None: None}.get(
            hints[each.name], [] if str(hints[each.name]).startswith("list") else {}
        )
        for each in fields(kind)
    }
    assert kind.from_wire(good) == kind(**good)
    for wrong in ([good], {1: 2}, *([] if kind is m.StepEnd else [None])):
        with pytest.raises(InvalidArgumentError, match=f"{kind.__name__} is a map of fields"):
            kind.from_wire(wrong)
    for each in fields(kind):
        with pytest.raises(InvalidArgumentError, match=f"{kind.__name__} has no {each.name}"):
            kind.from_wire({name: value for name, value in good.items() if name != each.name})
        for other in OTHERS[hints[each.name]]:
            with pytest.raises(InvalidArgumentError, match=rf"{kind.__name__}\.{each.name} is of the wrong"):
                kind.from_wire(good | {each.name: other})


def test_a_part_that_ended_well_is_told_of_by_nothing() -> None:
    assert m.StepEnd().to_wire() is None
    assert m.StepEnd.from_wire(None) == m.StepEnd() == m.WELL


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_records_do_not_change(kind: type[m.Message]) -> None:
    made = kind(**{each.name: None for each in fields(kind)})
    with pytest.raises(FrozenInstanceError):
        made.something = 1  # type: ignore[attr-defined]
