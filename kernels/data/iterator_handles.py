"""Handles of iterators: resources that a node makes once a session, and handles as strings.

If a step removes a single iterator, the node that made it does not make it again, and a use of its handle
raises TensorFlow's error. The first other node of its name makes a new iterator, to which all handles of the
name then refer. The iterators of a cleared container are made again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.ir.proto import ResourceHandleProto
from flowengine.kernels.context import KernelContext


class _Removable(Protocol):
    """is_removed: whether it was removed by itself, and not with its container."""

    is_removed: bool


T = TypeVar("T", bound=_Removable)


class _MadeByNode:
    """An object that a node has made or found in a session, kept also once it is removed."""

    __slots__ = ("made",)

    def __init__(self, made: _Removable) -> None:
        self.made = made


def made_once(
    ctx: KernelContext, node: Node, container: str, name: str, kind: type[T], factory: Callable[[], T]
) -> T:
    """The resource of this kind and name; one that was removed, where this node had it before.

    If the session of the step is not known, the node makes it again.
    """
    resources, owner = ctx.resources, ctx.owner
    if not owner:
        return resources.lookup_or_create(container, name, kind, factory)
    key = f"{kind.__name__}/{container}/{name}/{node.name}"
    found = resources.find(container, name, kind)
    known = resources.find(owner, key, _MadeByNode)
    if found is None:
        if known is not None and known.made.is_removed:
            assert isinstance(known.made, kind)  # the key says so
            return known.made
        found = resources.lookup_or_create(container, name, kind, factory)
    if known is None:
        resources.lookup_or_create(owner, key, _MadeByNode, partial(_MadeByNode, found))
    else:
        known.made = found
    return found


def handle_text(device: str, container: str, name: str, kind: str) -> bytes:
    """A handle as a string."""
    proto = ResourceHandleProto(device=device, container=container, name=name, maybe_type_name=kind)
    text: bytes = proto.SerializeToString()
    return text


def parsed_handle(value: Value) -> ResourceHandleProto:
    """The handle in a string; InvalidArgumentError for one that holds none."""
    text = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    proto = ResourceHandleProto()
    try:
        proto.ParseFromString(text)
    except Exception as error:
        raise InvalidArgumentError("Could not parse string_handle as a valid ResourceHandle") from error
    if not proto.name:
        raise InvalidArgumentError("Could not parse string_handle as a valid ResourceHandle")
    return proto
