"""ArgDef and AttrDef: one input, output or attribute of an op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.ir.attrs import AttrValue


class _MissingDefault:
    def __repr__(self) -> str:
        return "MISSING"


#: The default of an attribute that has none.
MISSING: Final = _MissingDefault()


@dataclass(frozen=True, slots=True)
class ArgDef:
    """One input or output: exactly one of `type`, `type_attr`, `type_list_attr` is set."""

    name: str
    type: DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return self.number_attr is not None or self.type_list_attr is not None

    def types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        """The types of the tensors that this argument stands for, references as such."""
        if self.type_list_attr is not None:
            return tuple(attrs[self.type_list_attr])
        one: DType = self.type if self.type is not None else attrs[self.type_attr or ""]
        if self.is_ref:
            one = one.ref
        return (one,) * int(attrs[self.number_attr]) if self.number_attr is not None else (one,)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """One attribute: its type, default, and what its values may be."""

    name: str
    #: "int", "float", "bool", "string", "type", "shape", "tensor", "func", or "list(...)" of one.
    type: str
    default: AttrValue = MISSING
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None

    @property
    def has_default(self) -> bool:
        return not isinstance(self.default, _MissingDefault)
