"""Graphs of one node each, made of the records of ops: their samples, and what is derived from them.

What is derived is meant to be bad: a dimension too few, an empty tensor, a negative number, NaN. Where
TensorFlow takes it for all that, its value is the one to have.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.load import registry as standard_registry
from tests.oprecords.record import TOLERANCE, Built, OpRecord, Sample

#: So many good and so many bad cases has an op at least, where its record and its inputs give as many.
ENOUGH: Final = 5
#: What a fetch cannot bring out of a session.
_KEPT_INSIDE: Final = ("resource", "variant")


@dataclass(frozen=True)
class NodeCase:
    """A graph with one node of an op.

    why       how its inputs were made
    graph     serialised; None where the node cannot be built here, for another reason than its shapes
    refusal   the class of the error with which it cannot
    drawn     the values are random without a seed, so that nothing but their shapes can be compared
    """

    op: str
    why: str
    graph: bytes | None
    refusal: str
    setup: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    variables: tuple[str, ...]
    tolerance: float
    drawn: bool

    def told(self, file: str) -> dict[str, Any]:
        """Return the fields of the case that the player reads, as JSON values."""
        names = ("setup", "fetches", "targets", "variables")
        return {"graph": file, **{name: list(getattr(self, name)) for name in names}}


def cases(record: OpRecord) -> list[NodeCase]:
    """All types with one sample each, all samples with one type each, and as many bad ones."""
    types, samples = list(record.combinations()), record.samples
    fixed = {a.name for a in record.definition.attrs if a.type == "type"}
    # A sample that says its types itself is taken once, others in turn with each of the types.
    places = [(i % len(samples), each) for i, each in enumerate(types)]
    places = [(place, each) for place, each in places if fixed.isdisjoint(samples[place].attrs)]
    taken = {place for place, each in places if each == types[0]}
    places += [(place, types[0]) for place in range(len(samples)) if place not in taken]
    pairs = [(samples[place], each) for place, each in places]
    found = [_case(record, each, t, "sample") for each, t in pairs]
    bad = [_case(record, Sample(b.inputs, b.attrs), types[0], "bad sample") for b in record.bad]
    first = record.samples[0]
    more = (_case(record, each, types[0], why) for why, each in derived(record.definition, first))
    return [*found, *bad, *itertools.islice(more, max(ENOUGH, ENOUGH + ENOUGH - len(bad)))]


def derived(definition: OpDef, each: Sample) -> Iterator[tuple[str, Sample]]:
    """The sample with one of its inputs made wrong, each input in turn in the same way."""
    changes: list[tuple[str, Any]] = [
        ("a dimension less", lambda a: a[0] if a.ndim and a.shape[0] else None),
        ("a dimension more", lambda a: a[None]),
        ("empty", lambda a: a[:0] if a.ndim and a.size else None),
        ("shorter", lambda a: a[:-1] if a.ndim and a.shape[0] > 1 else None),
        ("negative", lambda a: -a - 1 if a.dtype.kind in "if" else None),
        ("not a number", lambda a: a * np.nan if a.dtype.kind == "f" and a.size else None),
        ("larger", lambda a: a + 3 if a.dtype.kind in "if" else None),
    ]
    for why, change in changes:
        for place, arg in enumerate(definition.inputs):
            value = each.inputs[place]
            if arg.is_ref or (isinstance(value, list) and (arg.number_attr or arg.type_list_attr)):
                continue
            if arg.type is not None and arg.type.name in _KEPT_INSIDE:
                continue
            array = np.asarray(to_array(value) if isinstance(value, bytes | np.ndarray) else value)
            changed = change(array)
            if changed is not None:
                inputs = (*each.inputs[:place], changed, *each.inputs[place + 1 :])
                yield f"{arg.name} {why}", Sample(inputs, each.attrs)


def _case(record: OpRecord, each: Sample, types: Mapping[str, str], why: str) -> NodeCase:
    built, refusal = _built(record, each, types)
    said = ", ".join(f"{k}={v}" for k, v in types.items())
    attrs = dict(each.attrs)
    drawn = record.random and not (attrs.get("seed") or attrs.get("seed2"))
    exact = 0.0 if not record.loose else max(record.loose, 10.0)
    if built is None:
        return NodeCase(record.op, f"{why} {said}", None, refusal, (), (), (), (), exact, drawn)
    definition, node = record.definition, built.node
    kept = [
        dtype.base.name not in _KEPT_INSIDE for arg in definition.outputs for dtype in arg.types(node.attrs)
    ]
    fetches = [name for name, out in zip(built.fetches, kept, strict=True) if out]
    variables = [f"{name.partition(':')[0]}:0" for name in built.variables] if record.updates else []
    return NodeCase(
        record.op,
        f"{why} {said}",
        built.graph.to_graph_def().SerializeToString(),
        "",
        tuple(built.setup),
        tuple(fetches),
        ("node",),
        tuple(variables),
        exact,
        drawn,
    )


def _built(record: OpRecord, each: Sample, types: Mapping[str, str]) -> tuple[Built | None, str]:
    """The node, or the class of the error that refuses it.

    A node whose shapes are refused here is built all the same, so that TensorFlow has a word in it.
    """
    unshaped = OpRegistry(standard_registry())
    unshaped.register(dataclasses.replace(record.definition, shape=None))
    refusal = ""
    for registry in (None, unshaped):
        try:
            with np.errstate(all="ignore"):  # NaN becomes an integer
                return Built(fe.Graph(registry=registry), record, each, types, "constant", "node"), ""
        except Exception as error:  # of any class, as what is no error of an op is a difference
            refusal = type(error).__name__
    return None, refusal


def differs(got: Any, want: Any, tolerance: float, drawn: bool) -> str:
    """How our value is not TensorFlow's; empty where it is."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if got.dtype.kind == "O" or want.dtype.kind == "O":
        same = drawn or got.tolist() == want.tolist()
        return "" if same else f"{got.tolist()!r:.60}, not {want.tolist()!r:.60}"
    if got.dtype != want.dtype:
        return f"{got.dtype}, not {want.dtype}"
    if drawn:
        return ""
    allowed = TOLERANCE.get(want.dtype.name, 0.0) * tolerance
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        if not allowed:
            same = (got == want) | ((got != got) & (want != want))
        else:
            same = np.isclose(got.astype(wide), want.astype(wide), allowed, allowed, equal_nan=True)
    if np.all(same):
        return ""
    place = tuple(np.argwhere(~np.atleast_1d(same))[0])
    return f"{np.atleast_1d(got)[place]}, not {np.atleast_1d(want)[place]}"


__all__ = ["NodeCase", "cases", "derived", "differs"]
