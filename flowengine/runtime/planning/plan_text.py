"""The form of a plan, as text: its blocks, what libraries claimed, and where each item runs."""

from __future__ import annotations

from flowengine.runtime.lanes import HEAVY_MICROSECONDS
from flowengine.runtime.planning.items import KIND_NAMES, Item, Kind
from flowengine.runtime.planning.plan import Plan


def form_of(plan: Plan) -> str:
    """A line for each item. Equal texts mean that steps run alike."""
    has_stretches = plan.stretch_items.are_worth_it()
    lines = []
    for item in plan.items:
        lane = _lane(item, plan, has_stretches=has_stretches)
        lines.append(f"{item.name}: {_what(item)}; {lane}")
    return "\n".join(lines) or "nothing to run"


def _what(item: Item) -> str:
    if item.kind == Kind.REGION:
        names = [unit.name for unit in item.node.attrs["program"].units]
        return f"block of {len(names)}: {', '.join(names)}"
    members = getattr(item.node.attrs.get("program"), "names", None)
    if members is not None:
        return f"{item.node.op} of {len(members)}: {', '.join(sorted(members))}"
    return item.node.op


def _lane(item: Item, plan: Plan, *, has_stretches: bool) -> str:
    """Where the item runs if it takes what it last took."""
    if item.kind > Kind.GENERAL:
        return {Kind.ASYNC: "a task", Kind.REGION: "inline"}.get(item.kind, KIND_NAMES[item.kind])
    if item.times.microseconds <= HEAVY_MICROSECONDS:
        return "inline"
    return "a stretch" if has_stretches and item in plan.stretch_items.free else "a thread"


__all__ = ["form_of"]
