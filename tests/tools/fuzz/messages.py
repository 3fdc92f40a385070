"""Protocol buffer messages changed field by field, whatever they are of."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.tools.fuzz.chance import FLOATS, NUMBERS, damaged

#: {cpp_type: (lowest, highest)} of integers.
_RANGES: Final = {1: (-(2**31), 2**31 - 1), 2: (-(2**63), 2**63 - 1), 3: (0, 2**32 - 1), 4: (0, 2**64 - 1)}
_DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING, _MESSAGE = 5, 6, 7, 8, 9, 10
_BYTES_TYPE: Final = 12
_FLOAT_MAX: Final = 3.4e38


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _is_repeated(field: Any) -> bool:
    # Versions of protobuf before 6.31 say it by a label alone, later ones no longer have that.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _places(message: Any) -> list[tuple[Any, Any]]:
    """(message, field) for every field that is set, at any depth."""
    found = []
    for field, value in message.ListFields():
        found.append((message, field))
        if field.cpp_type != _MESSAGE:
            continue
        if _is_map(field):
            # A map's order is another one in each process.
            inner = [value[key] for key in sorted(value) if hasattr(value[key], "ListFields")]
        else:
            inner = list(value) if _is_repeated(field) else [value]
        for each in inner:
            found += _places(each)
    return found


def change(message: Any, chance: random.Random) -> None:
    """Change one field somewhere in a message: in place, to something that can still be written."""
    places = _places(message)
    if not places:
        return
    owner, field = chance.choice(places)
    if chance.random() < 0.1:
        owner.ClearField(field.name)
    elif _is_map(field):
        _change_map(getattr(owner, field.name), chance)
    elif _is_repeated(field):
        _change_repeated(getattr(owner, field.name), field, chance)
    elif field.cpp_type == _MESSAGE:
        change(getattr(owner, field.name), chance)
    else:
        setattr(owner, field.name, _other(field, getattr(owner, field.name), chance))


def _change_map(values: Any, chance: random.Random) -> None:
    keys = sorted(values)
    if not keys:
        return
    key = chance.choice(keys)
    if chance.random() < 0.4:
        del values[key]
    elif hasattr(values[key], "CopyFrom"):
        # Another's value under this name.
        other = chance.choice(keys)
        if other != key:
            values[key].CopyFrom(values[other])
        else:
            change(values[key], chance)


def _change_repeated(values: Any, field: Any, chance: random.Random) -> None:
    if not len(values):
        return
    place = chance.randrange(len(values))
    kind = chance.randrange(4)
    if kind == 0:
        del values[place]
    elif kind == 1:
        kept = list(values)
        chance.shuffle(kept)
        copies = [type(each)() for each in kept] if field.cpp_type == _MESSAGE else kept
        for copy, each in zip(copies, kept, strict=True):
            if field.cpp_type == _MESSAGE:
                copy.CopyFrom(each)
        del values[:]
        values.extend(copies)
    elif field.cpp_type == _MESSAGE:
        if kind == 2:
            values.add().CopyFrom(values[place])
        else:
            change(values[place], chance)
    elif kind == 2:
        values.extend([values[place]] * chance.choice([1, 2, 300]))
    else:
        values[place] = _other(field, values[place], chance)


def _other(field: Any, value: Any, chance: random.Random) -> Any:
    kind = field.cpp_type
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return min(max(chance.choice([*NUMBERS, value + 1, value - 1, -value]), low), high)
    if kind in (_FLOAT, _DOUBLE):
        number = chance.choice([*FLOATS, -value])
        finite = abs(number) <= _FLOAT_MAX
        return number if kind == _DOUBLE or finite or number != number else float("inf")
    if kind == _BOOL:
        return not value
    if kind == _ENUM:
        return chance.choice([0, *(each.number for each in field.enum_type.values), 77])
    if field.type == _BYTES_TYPE:
        return damaged(value, chance)
    return _other_text(value, chance)


def _other_text(text: str, chance: random.Random) -> str:
    choices = [
        "",
        text + "x",
        text[:-1],
        text * 2,
        "/" + text,
        text + ":0",
        "^" + text,
        "\x00",
        "ü" * 3,
        "%s",
        "..",
    ]
    return chance.choice([*choices, "x" * 5000 if chance.random() < 0.1 else "_"])
