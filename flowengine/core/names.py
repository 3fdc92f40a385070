"""Names: of nodes (`dense/MatMul`), tensors (`dense/MatMul:0`), control inputs (`^init`), devices.

>>> parse_input("a"), parse_input("a:2"), parse_input("^a")
(('a', 0), ('a', 2), ('a', -1))
>>> str(DeviceName.parse("/job:worker/task:1/gpu:0"))
'/job:worker/task:1/device:GPU:0'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from flowengine.core.errors import InvalidArgumentError

#: The slot that `parse_input` gives to a control input.
CONTROL_SLOT: Final = -1

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")
_INTERNAL_NODE_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*\Z")


def is_valid_node_name(name: str, *, internal: bool = False) -> bool:
    """Whether a node may be called so; names that start with `_` are for passes (`internal`)."""
    return (_INTERNAL_NODE_NAME if internal else _NODE_NAME).match(name) is not None


def parse_input(text: str) -> tuple[str, int]:
    """(node name, slot) of a node's input as a GraphDef writes it; CONTROL_SLOT for `^name`."""
    if text.startswith("^"):
        return text[1:], CONTROL_SLOT
    name, colon, slot = text.rpartition(":")
    if colon and slot.isascii() and slot.isdigit():
        return name, int(slot)
    return text, 0


def parse_tensor_name(text: str) -> tuple[str, int]:
    """(node name, slot) of `name:slot`; InvalidArgumentError for anything else."""
    name, colon, slot = text.rpartition(":")
    if not colon or not name or name.startswith("^") or not (slot.isascii() and slot.isdigit()):
        raise InvalidArgumentError(
            f"{text!r} is not the name of a tensor: write 'node:slot', such as '{text or 'node'}:0'"
        )
    return name, int(slot)


def tensor_name(node: str, slot: int) -> str:
    return f"{node}:{slot}"


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device name, complete or partial: each part that is None is left open."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    index: int | None = None

    @classmethod
    def parse(cls, text: str) -> DeviceName:
        """Read `/job:j/replica:r/task:t/device:TYPE:i`, any part missing, or the old `/cpu:0`.

        Raises InvalidArgumentError naming the part that cannot be read.
        """
        result = cls()
        for part in text.split("/"):
            if not part:
                continue
            key, _, rest = part.partition(":")
            try:
                if key == "job":
                    result = replace(result, job=rest)
                elif key == "replica":
                    result = replace(result, replica=None if rest == "*" else int(rest))
                elif key == "task":
                    result = replace(result, task=None if rest == "*" else int(rest))
                elif key == "device":
                    kind, _, index = rest.partition(":")
                    result = replace(
                        result,
                        type=None if kind in ("", "*") else kind.upper(),
                        index=None if index in ("", "*") else int(index),
                    )
                elif key.upper() in ("CPU", "GPU"):
                    result = replace(result, type=key.upper(), index=None if rest in ("", "*") else int(rest))
                else:
                    raise ValueError(part)
            except ValueError:
                raise InvalidArgumentError(f"cannot read {part!r} in the device name {text!r}") from None
        return result

    def merge_with(self, other: DeviceName) -> DeviceName:
        """This name with the open parts filled from the other."""
        return DeviceName(
            self.job if self.job is not None else other.job,
            self.replica if self.replica is not None else other.replica,
            self.task if self.task is not None else other.task,
            self.type if self.type is not None else other.type,
            self.index if self.index is not None else other.index,
        )

    def matches(self, complete: DeviceName) -> bool:
        """Whether the complete name fulfils this one."""
        return (
            self.job in (None, complete.job)
            and self.replica in (None, complete.replica)
            and self.task in (None, complete.task)
            and self.type in (None, complete.type)
            and self.index in (None, complete.index)
        )

    def __str__(self) -> str:
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.type is not None:
            index = "*" if self.index is None else self.index
            parts.append(f"/device:{self.type}:{index}")
        return "".join(parts)
