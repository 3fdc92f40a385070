"""`TrainingHistory`: what `fe.train.fit` returns, the numbers of each epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.train.progress.wording import shown
from flowengine.train.saveables import alike

#: A table of more epochs shows only the first, the last and the best ones.
_ROWS_MAX: Final = 16
_FIRST_ROWS: Final = 4
_LAST_ROWS: Final = 10


@dataclass(slots=True, repr=False)
class TrainingHistory:
    """The numbers of a model's epochs, those before a restart included. Epochs count from 0.

        history = await fe.train.fit(session, train, data, ...)
        history["val_loss"]           # [0.41, 0.33, ...]
        print(history)                # a table

    numbers   {name: list of float, one an epoch}: means of what the steps fetch, metrics, and of validation
              the same names after "val_"
    seconds   the duration of each epoch, its validation included
    steps     the number of steps that the model has made in all
    reason    the reason of its end: "epochs", that the number to watch has not become better, or that of a
              hook
    monitor   the name of the number to watch; None without one
    best_epoch        the epoch in which it was best, the last one if several are equal; None before the first
    best_checkpoint   the prefix of the checkpoint of that epoch; None without a directory

    >>> history = fe.train.TrainingHistory({"loss": [0.5, 0.25]}, [1.0, 1.0], steps=20)
    >>> history["loss"], history.steps
    ([0.5, 0.25], 20)
    """

    numbers: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    reason: str = ""
    monitor: str | None = None
    best_epoch: int | None = None
    best_checkpoint: str | None = None

    def __len__(self) -> int:
        """How many epochs are complete."""
        return len(self.seconds)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> list[float]:
        """Return a number by epoch; InvalidArgumentError for a name that it does not have."""
        if name not in self.numbers:
            known = ", ".join(self.numbers)
            raise InvalidArgumentError(
                f"the history has no '{name}'{alike(name, self.numbers)}: it has {known}"
            )
        return self.numbers[name]

    def __str__(self) -> str:
        """Return the table, an epoch a row."""
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), *self._notes()])

    def __repr__(self) -> str:
        last = "".join(f", {name} {shown(values[-1])}" for name, values in self.numbers.items() if values)
        return f"<TrainingHistory of {len(self)} epochs{last}>"

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        notes = "".join(f"<div>{escape(each)}</div>" for each in self._notes())
        return f"<table><tr>{cells}</tr>{body}</table>{notes}"

    def _rows(self) -> list[list[str]]:
        """The cells: names, then the epochs that are shown; dots for those left out."""
        rows = [["epoch", *self.numbers, "seconds"]]
        count = len(self)
        kept = set(range(count))
        if count > _ROWS_MAX:
            kept = {*range(_FIRST_ROWS), *range(count - _LAST_ROWS, count)} | (
                set() if self.best_epoch is None else {self.best_epoch}
            )
        for epoch in range(count):
            if epoch in kept:
                mark = "*" if epoch == self.best_epoch else ""
                values = [shown(each[epoch]) for each in self.numbers.values()]
                rows.append([f"{mark}{epoch + 1}", *values, f"{self.seconds[epoch]:.2f}"])
            elif epoch - 1 in kept:
                rows.append(["..."] * len(rows[0]))
        return rows

    def _notes(self) -> list[str]:
        if self.best_epoch is None:
            return []
        return [f"* the best '{self.monitor}'"]


__all__ = ["TrainingHistory"]
