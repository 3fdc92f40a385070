"""The beams of a search through paths of connectionist temporal classification.

A beam is a prefix of labels, with the logarithms of the probability that it was read so far: ending in a
blank, ending in its last label, and both together. Each step goes on with all beams of the step before, then
grows those that are worth it by one label; only the best few are kept (Graves, "Supervised sequence labelling
with recurrent neural networks", 2008, section 7.5).

Beams form a tree. One that is dropped stays in it, as those that have grown from it may come to need it
again.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError

HOST: Final = "a tree of prefixes that grows from step to step; TensorFlow has no GPU kernel"

_NEVER: Final = float("-inf")


class Beam:
    """A prefix: its parent's with one label more.

    total, blank, label   logarithms now          old_total, old_blank   a step before
    """

    __slots__ = (
        "blank",
        "children",
        "label",
        "label_log",
        "old_blank",
        "old_total",
        "parent",
        "serial",
        "total",
    )

    def __init__(self, parent: Beam | None, label: int, serial: int) -> None:
        self.parent = parent
        self.label = label
        self.serial = serial
        self.children: dict[int, Beam] = {}
        self.total = self.blank = self.label_log = _NEVER
        self.old_total = self.old_blank = _NEVER

    def drop(self) -> None:
        self.total = self.blank = self.label_log = _NEVER

    def labels(self, merges: bool) -> list[int]:
        """From the first to the last; equal neighbours once where they are to be merged."""
        found: list[int] = []
        beam, before = self, -1
        while beam.parent is not None:
            if not merges or beam.label != before:
                found.append(beam.label)
            before = beam.label
            beam = beam.parent
        return found[::-1]


class Beams:
    """The best `width` beams over `classes` classes, of which the last is the blank."""

    def __init__(self, classes: int, width: int, dtype: Any) -> None:
        self._blank = classes - 1
        self._width = width
        self._dtype = np.dtype(dtype)
        self._made = 0
        root = self._make(None, -1)
        root.total = root.blank = 0.0
        #: The least probable first: (logarithm, minus the order in which they were made, beam).
        self._heap: list[tuple[float, int, Beam]] = [(0.0, 0, root)]

    def _make(self, parent: Beam | None, label: int) -> Beam:
        self._made += 1
        return Beam(parent, label, -self._made)

    def _sorted(self) -> list[Beam]:
        return [beam for _, _, beam in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]

    def step(self, logits: Array) -> None:
        """Read one more time step, logits (C,)."""
        greatest = logits.max()
        scores = logits - (greatest + np.log(np.exp(logits - greatest).sum()))
        beams = self._sorted()
        self._go_on(beams, scores)
        self._heap = [(beam.total, beam.serial, beam) for beam in beams]
        heapq.heapify(self._heap)
        self._grow(beams, scores[:-1])

    def _go_on(self, beams: list[Beam], scores: Array) -> None:
        """All beams stay where they are: another blank, or the last label once more."""
        for beam in beams:
            beam.old_total, beam.old_blank = beam.total, beam.blank
        count = len(beams)
        old, label = np.empty(count, self._dtype), np.empty(count, self._dtype)
        from_parent = np.full(count, _NEVER, self._dtype)
        for i, beam in enumerate(beams):
            old[i], label[i] = beam.old_total, beam.label_log
            parent = beam.parent
            if parent is not None and parent.total != _NEVER:
                from_parent[i] = parent.old_blank if beam.label == parent.label else parent.old_total
        # The root has no label to repeat.
        last = np.array([beam.label for beam in beams])
        label = np.where(last < 0, label, np.logaddexp(label, from_parent) + scores[last])
        blank = old + scores[self._blank]
        total = np.logaddexp(blank, label)
        for beam, *parts in zip(beams, total.tolist(), blank.tolist(), label.tolist(), strict=True):
            beam.total, beam.blank, beam.label_log = parts

    def _takes(self, total: float) -> bool:
        return total > _NEVER and (len(self._heap) < self._width or total > self._heap[0][0])

    def _grow(self, beams: list[Beam], scores: Array) -> None:
        """New beams, from the most probable old ones on, each by every label that gets a place."""
        if not scores.size:
            return
        old = np.array([beam.old_total for beam in beams], self._dtype)
        totals = scores + old[:, None]
        for i, beam in enumerate(beams):
            if beam.label >= 0:
                totals[i, beam.label] = scores[beam.label] + self._dtype.type(beam.old_blank)
        for beam, row in zip(beams, totals, strict=True):
            if not self._takes(beam.old_total):
                continue
            least = self._heap[0][0] if len(self._heap) >= self._width else _NEVER
            wanted = np.nonzero(row > least)[0].tolist()
            self._forget(beam, row)
            for label, total in zip(wanted, row[wanted].tolist(), strict=True):
                self._try(beam, label, total)

    def _forget(self, beam: Beam, row: Array) -> None:
        """Stop children from growing in this step if they lost their place and get none by the parent."""
        for label, child in beam.children.items():
            if child.total == _NEVER and not self._takes(float(row[label])):
                self._lose(child)

    def _lose(self, child: Beam | None) -> None:
        if child is not None:
            child.old_total = child.old_blank = _NEVER

    def _try(self, beam: Beam, label: int, total: float) -> None:
        child = beam.children.get(label)
        if child is not None and child.total != _NEVER:
            return
        if not self._takes(total):
            self._lose(child)
            return
        if child is None:
            child = beam.children[label] = self._make(beam, label)
        child.blank, child.label_log, child.total = _NEVER, total, total
        entry = (total, child.serial, child)
        if len(self._heap) >= self._width:
            _, _, dropped = heapq.heapreplace(self._heap, entry)
            dropped.drop()
        else:
            heapq.heappush(self._heap, entry)

    def best(self, count: int, merges: bool) -> tuple[list[list[int]], list[float]]:
        """The labels and logarithms of the most probable beams."""
        if count > len(self._heap):
            raise InvalidArgumentError(
                f"Less leaves in the beam search than requested: {len(self._heap)} of {count}"
            )
        found = self._sorted()[:count]
        return [beam.labels(merges) for beam in found], [beam.total for beam in found]
