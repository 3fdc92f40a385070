"""Sequences that run in turns, which end wherever a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flowengine.kernels.numpy.sequences import Progress
from flowengine.kernels.numpy.sequences import Sequence as FusedSequence


class Turns:
    """A turn that is over with each answer that is True.

    between   called whenever a run is suspended
    count     how often a run was
    """

    ends = 0.0

    def __init__(self, answers: Iterable[bool], between: Callable[[], object] = bool) -> None:
        self._answers = iter(answers)
        self._between = between
        self.count = 0

    def is_over(self) -> bool:
        return next(self._answers, False)

    def run(self, sequence: FusedSequence, values: Sequence[Any]) -> list[Any]:
        """All of it, turn after turn."""
        made = sequence.begin(values, self)
        while isinstance(made, Progress):
            self.count += 1
            self._between()
            made = sequence.go_on(made, self)
        return made
