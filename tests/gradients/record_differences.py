"""Derivatives of an op's record beside finite differences, in double precision where a kernel takes it.

Each sample is built twice: with constants, and with placeholders of which nothing is known. The gradient of a
random projection of the outputs, and the gradient of a random projection of that gradient, must agree with
central differences along a random direction. Of complex numbers the real part of a product counts, with the
gradient conjugated: a real loss changes by Re(conj(g) dx).

What an op knows in single precision only is moved by larger steps, and compared less strictly.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.core.dtypes import as_dtype
from flowengine.gradients.values import dense
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from tests.gradients import peculiar
from tests.oprecords.record import Built, OpRecord, Sample

_WIDE: Final = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
_SINGLE: Final = ("float32", "complex64")
#: {whether all is in double precision: step, relative slack, slack by the values, how far values are moved}
_STEPS: Final = {True: (1e-6, 1e-5, 1e-7, 1.0), False: (2e-3, 5e-3, 1e-3, 10.0)}
#: An extreme of no elements is the largest number there is.
_HUGE: Final = 1e100
FORMS: Final = ("constant", "unknown")


def wide_types(record: OpRecord) -> list[dict[str, str]]:
    """Combinations of types in double precision: of reals, and of complex numbers where they are taken."""
    found: list[dict[str, str]] = []
    narrow: list[dict[str, str]] = []
    for types in record.combinations():
        wide = {key: _WIDE.get(name, name) for key, name in types.items()}
        if record.op in peculiar.SINGLE:
            wide = {}
        is_inexact = any(name in ("float64", "complex128") for name in wide.values())
        if not types or (is_inexact and wide not in found and _is_taken(record.op, wide)):
            found.append(wide)
        elif (
            any(name in _SINGLE for name in types.values())
            and types not in narrow
            and _is_taken(record.op, types)
        ):
            narrow.append(types)
    return found or narrow


def _widened(op: str, each: Sample) -> Sample:
    """The sample with its own types in double precision, if a kernel takes those."""
    attrs = registry()[op].attrs
    own = {a.name: each.attrs[a.name] for a in attrs if a.type == "type" and a.name in each.attrs}
    wide = {key: _WIDE.get(as_dtype(name).name, as_dtype(name).name) for key, name in own.items()}
    return replace(each, attrs={**each.attrs, **wide}) if _is_taken(op, wide) else each


def _is_taken(op: str, types: Mapping[str, str]) -> bool:
    """Whether a kernel takes these types."""
    return any(
        all(key not in types or as_dtype(types[key]) in taken for key, taken in (kernel.types or {}).items())
        for kernel in load_all().candidates(op)
    ) and all(
        not attr.allowed or attr.name not in types or as_dtype(types[attr.name]) in attr.allowed
        for attr in registry()[op].attrs
    )


class Differences:
    """One sample of a record as a graph with first and second derivatives.

    found    the names of the arguments that have a gradient
    absent   the names of floating arguments that have none
    """

    def __init__(
        self,
        record: OpRecord,
        each: Sample,
        types: Mapping[str, str],
        form: str,
    ) -> None:
        self.graph = fe.Graph()
        built = Built(self.graph, record, _widened(record.op, each), types, form, "op")
        self.random = np.random.default_rng(zlib.crc32(f"{record.op} {each.inputs!r}".encode()))
        operation = self.graph.operation("op")
        of = peculiar.OUTPUTS.get(record.op, range(len(operation.outputs)))
        self.ys = [y for y in (operation.outputs[place] for place in of) if _is_inexact(y)]
        self.feeds: dict[fe.Tensor, Any] = {self.graph.tensor(k): v for k, v in built.feeds.items()}
        flat = [v for value in built.inputs for v in (value if isinstance(value, list) else [value])]
        values = dict(zip(operation.inputs, flat, strict=True))
        candidates = [x for x in values if _is_inexact(x) and not x.dtype.is_ref]
        self.projections = [self.graph.placeholder(y.dtype, y.shape) for y in self.ys]
        found = fe.gradients(self.ys, candidates, self.projections) if self.ys else [None] * len(candidates)
        names = self._names(record)
        places = {x: names[operation.inputs.index(x)] for x in candidates}
        self.xs = [x for x, each_found in zip(candidates, found, strict=True) if each_found is not None]
        self.found = {places[x] for x in self.xs}
        self.absent = {places[x] for x in candidates if x not in self.xs}
        self.firsts = [_dense(self.graph, each) for each in found if each is not None]
        self.is_double = not any(t.dtype.base.name in _SINGLE for t in self._tensors())
        self.step, self.relative, self.by_values, self.away = _STEPS[self.is_double]
        within = peculiar.WITHIN.get(record.op, {})
        self.within = {x: within.get(places[x], _anything) for x in self.xs}
        self.values = {x: self._moved(x, values[x]) for x in self.xs}
        #: Whether some outputs are no numbers: the sample lies partly outside of the function's domain.
        self.has_gaps = False

    def _names(self, record: OpRecord) -> list[str]:
        """For each input the name of its argument."""
        return [arg.name for arg in record.definition.inputs for _ in arg.types(self.graph["op"].attrs)]

    def _tensors(self) -> list[fe.Tensor]:
        return [t for operation in self.graph.operations() for t in operation.outputs]

    def _moved(self, x: fe.Tensor, value: Array) -> Array:
        """Away from zeros, ties and whole numbers, by a little."""
        least, most = 0.002 * self.away, 0.02 * self.away
        moved = value + self.random.uniform(least, most, value.shape)
        if value.dtype.kind == "c":
            moved = moved + 1j * self.random.uniform(least, most, value.shape)
        return np.asarray(self.within[x](moved), value.dtype)

    def check(self, *, second: bool = True) -> None:
        """Raises AssertionError where a derivative and the differences are apart.

        second   whether there are second derivatives
        """
        if not self.xs or not all(np.isfinite(value).all() for value in self.values.values()):
            return
        with fe.blocking.Session(self.graph) as session:
            outputs = session.run(self.ys, {**self.feeds, **self.values})
            self.has_gaps = any(not np.isfinite(y).all() for y in outputs)
            weights = {w: self._weights(y) for w, y in zip(self.projections, outputs, strict=True)}
            self._compare(session, "first", (self.ys, weights), self.firsts, weights)
            if second:
                self._check_second(session, weights)

    def _check_second(self, session: Any, weights: Mapping[fe.Tensor, Array]) -> None:
        ups = [self.graph.placeholder(each.dtype, each.shape) for each in self.firsts]
        sources = [*self.xs, *self.projections]
        found = fe.gradients(self.firsts, sources, ups)
        seconds = [None if each is None else _dense(self.graph, each) for each in found]
        firsts = session.run(self.firsts, {**self.feeds, **self.values, **weights})
        drawn = {up: self._weights(first) for up, first in zip(ups, firsts, strict=True)}
        self._compare(session, "second", (self.firsts, drawn), seconds, {**weights, **drawn})

    def _weights(self, values: Any) -> Array:
        """A random weight for each value; none for what is no number, or stands for none."""
        array = np.asarray(values)
        is_number = np.isfinite(array) & (np.abs(array) < _HUGE)
        return np.where(is_number, self._normal(array), 0).astype(array.dtype)

    def _normal(self, like: Array) -> Array:
        drawn = self.random.normal(size=like.shape)
        if like.dtype.kind == "c":
            drawn = drawn + 1j * self.random.normal(size=like.shape)
        return np.asarray(drawn, like.dtype)

    def _compare(
        self,
        session: Any,
        order: str,
        what: tuple[Sequence[fe.Tensor], Mapping[fe.Tensor, Array]],
        gradients: Sequence[fe.Tensor | None],
        more: Mapping[fe.Tensor, Array],
    ) -> None:
        """Gradients by all xs, and by the weights of the outputs if there are so many, beside differences."""
        ys, weights = what
        feeds = {**self.feeds, **self.values, **more}
        present = [g for g in gradients if g is not None]
        found = iter(session.run(present, feeds) if present else [])
        sources = [*self.xs, *self.projections][: len(gradients)]
        for x, gradient in zip(sources, gradients, strict=True):
            at = np.asarray(feeds[x])
            g = np.zeros_like(at) if gradient is None else np.asarray(next(found))
            assert g.shape == at.shape, f"{order} derivative by {x.name}: shape {g.shape}, not {at.shape}"
            assert g.dtype == at.dtype
            # Where a function has no value, an argument's gradient says nothing.
            is_inside = np.isfinite(g) | (not self.has_gaps)
            along = self.within.get(x, _anything)(at + self._normal(at) * (1 + np.abs(at))) - at
            direction = np.where(is_inside, along, 0)
            sides = []
            for sign in (1, -1):
                moved = {**feeds, x: np.asarray(at + sign * self.step * direction, at.dtype)}
                sides.append(_projected(list(weights.values()), session.run(list(ys), moved)))
            difference = (sides[0][0] - sides[1][0]) / (2 * self.step)
            products = np.real(np.conj(np.where(is_inside, g, 0)) * direction)
            slack = self.relative * np.abs(products).sum() + self.by_values * (sides[0][1] + 0.1)
            error = abs(difference - products.sum())
            found_text = f"{products.sum()}, but by differences {difference}"
            assert error <= slack, f"{order} derivative by {x.name}: {found_text}, at {feeds!r}"


def _projected(weights: Sequence[Array], values: Sequence[Any]) -> tuple[float, float]:
    """The projection, and the size of what was added."""
    terms = [
        np.real(np.conj(w) * np.where(w == 0, 0, np.asarray(v))) for w, v in zip(weights, values, strict=True)
    ]
    return sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)


def _dense(graph: fe.Graph, gradient: Any) -> fe.Tensor:
    return gradient if isinstance(gradient, fe.Tensor) else dense(graph, graph.ops, gradient)


def _is_inexact(tensor: fe.Tensor) -> bool:
    return tensor.dtype.base.name in ("float64", "complex128", *_SINGLE)


def _anything(array: Array) -> Array:
    return array
