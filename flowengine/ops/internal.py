"""Ops that passes make and users never write."""

from __future__ import annotations

from flowengine.ir.opdef import OpDef

#: Many synchronous nodes compiled into one; its attribute `program` has no written form.
REGION = OpDef.build(
    "_Region",
    inputs=["inputs: Tin"],
    outputs=["outputs: Tout"],
    attrs=["Tin: list(type) >= 0", "Tout: list(type) >= 0"],
    is_stateful=True,
)
