"""Nodes as passes make them: by name, from the definitions that are there.

    make.identity(ops, "x/read", OutputPort("x", 0), float32)
    make.node(ops, "BiasAdd", "y", inputs=(features, bias), T=float32)

Attributes that are not given have their defaults, and output types follow from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flowengine.core.dtypes import DType
from flowengine.ir import names
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.opdef import OpRegistry


def node(
    ops: OpRegistry,
    op: str,
    name: str,
    *,
    inputs: Sequence[OutputPort] = (),
    controls: Sequence[str] = (),
    device: str = "",
    creation_site: str = "",
    **attrs: AttrValue,
) -> Node:
    """A node of any op; NotFoundError for one that has no definition."""
    op_def = ops[op]
    complete = op_def.with_defaults(attrs)
    return Node(
        name,
        op,
        tuple(inputs),
        tuple(controls),
        complete,
        device,
        op_def,
        op_def.output_types(complete),
        creation_site,
    )


def const(
    ops: OpRegistry,
    name: str,
    value: TensorAttr,
    *,
    controls: Sequence[str] = (),
    device: str = "",
    creation_site: str = "",
    **more: AttrValue,
) -> Node:
    """A constant; `more` are attributes beside its value and type."""
    return node(
        ops,
        "Const",
        name,
        controls=controls,
        device=device,
        creation_site=creation_site,
        dtype=value.dtype,
        value=value,
        **more,
    )


def no_op(ops: OpRegistry, like: Node, controls: Sequence[str]) -> Node:
    """Build a NoOp that waits for these nodes, in the place of another node that did more."""
    op_def = ops["NoOp"]
    return replace(
        like,
        op=op_def.name,
        op_def=op_def,
        inputs=(),
        control_inputs=tuple(controls),
        attrs={},
        output_types=(),
    )


def identity(
    ops: OpRegistry, name: str, source: OutputPort, dtype: DType, *, controls: Sequence[str] = ()
) -> Node:
    """Build an Identity that hands on a value once these nodes have run."""
    return node(ops, "Identity", name, inputs=(source,), controls=controls, T=dtype)


def send(ops: OpRegistry, name: str, source: OutputPort, dtype: DType, **attrs: AttrValue) -> Node:
    """Build a Send that leaves a tensor at the rendezvous; `attrs` name its receiver."""
    return node(ops, names.SEND, name, inputs=(source,), T=dtype, **attrs)


def receive(
    ops: OpRegistry, name: str, dtype: DType, *, controls: Sequence[str] = (), **attrs: AttrValue
) -> Node:
    """Build a Recv that takes a tensor from the rendezvous; `attrs` name its sender."""
    return node(ops, names.RECEIVE, name, controls=controls, tensor_type=dtype, **attrs)
