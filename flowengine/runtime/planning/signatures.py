"""The signature of a kernel: how to call it, and whether a worker thread may compute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.dtypes import DType, resource, string, variant
from flowengine.ir.graph import Node
from flowengine.ir.opdef import OpDef
from flowengine.kernels.registry import Kernel
from flowengine.runtime.planning.items import Kind

#: Inputs up to this many bytes are computed inline: NumPy needs about 0.1 ms for them.
INLINE_BYTES: Final = 256 * 1024
#: A kernel that estimates its own cost is asked above this size; 64x64 products take 5 us.
ESTIMATE_BYTES: Final = 16 * 1024
#: More bytes than any input has: the size of inputs never matters.
ALWAYS_INLINE: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Signature:
    """The properties that a kernel and the types of its inputs decide: see `Item`."""

    groups: tuple[int | None, ...] | None
    mutates: bool
    cost: Callable[..., float] | None
    inline_bytes: int
    kind: int


class Signatures:
    """The signatures that a plan has met."""

    __slots__ = ("_known", "_type_attrs")

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Signature] = {}
        #: {op: the attributes on which the types of its inputs depend}
        self._type_attrs: dict[str, tuple[str, ...]] = {}

    def of(self, node: Node, kernel: Kernel) -> Signature:
        """Return the same for all nodes of a kernel whose inputs have the same types."""
        assert node.op_def is not None
        attrs = node.attrs
        names = self._type_attrs.get(node.op)
        if names is None:
            names = self._type_attrs[node.op] = _type_attrs(node.op_def)
        key = (kernel, len(node.output_types), *[attrs[name] for name in names])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _make_signature(node, node.op_def, kernel)
        return known


def takes_variables(node: Node) -> list[bool]:
    """Return for each input of a node whether its kernel takes a reference or a handle there."""
    assert node.op_def is not None
    return [
        arg.is_ref or dtype.base is resource for arg in node.op_def.inputs for dtype in arg.types(node.attrs)
    ]


def _type_attrs(op_def: OpDef) -> tuple[str, ...]:
    names = [(arg.type_attr, arg.number_attr, arg.type_list_attr) for arg in op_def.inputs]
    return tuple(dict.fromkeys(name for each in names for name in each if name is not None))


def _make_signature(node: Node, op_def: OpDef, kernel: Kernel) -> Signature:
    lists: list[int | None] = []
    plain, mutates, texts = True, False, False
    for arg in op_def.inputs:
        types = arg.types(node.attrs)
        lists.append(len(types) if arg.is_list else None)
        if arg.is_ref or any(t.base is resource for t in types):
            mutates = True
        plain = plain and not any(_is_object(t) for t in types)
        texts = texts or any(t.base is string for t in types)
    groups = tuple(lists) if any(length is not None for length in lists) else None
    cost: Callable[..., float] | None = None
    # The time of strings does not depend on bytes, but a kernel may estimate it itself.
    is_measured = plain or mutates or (texts and callable(kernel.heavy))
    if kernel.heavy is False or kernel.is_async or not is_measured:
        inline_bytes = ALWAYS_INLINE
    elif kernel.heavy is None or kernel.heavy is True:
        inline_bytes = INLINE_BYTES
    else:
        cost = kernel.heavy
        sized_by_inputs = not any(t.is_integer for t in node.input_types()) and len(node.inputs) > 1
        inline_bytes = ESTIMATE_BYTES if sized_by_inputs and not texts else -1
    kind = Kind.GENERAL
    if (
        plain
        and groups is None
        and not mutates
        and not kernel.takes_context
        and len(node.output_types) == 1
        and inline_bytes >= 0
        and len(node.inputs) in (1, 2)
    ):
        kind = Kind.UNARY if len(node.inputs) == 1 else Kind.BINARY
    return Signature(groups, mutates, cost, inline_bytes, kind)


def _is_object(dtype: DType) -> bool:
    return dtype.base in (string, resource, variant)


__all__ = ["ALWAYS_INLINE", "ESTIMATE_BYTES", "INLINE_BYTES", "Signature", "Signatures", "takes_variables"]
