"""`--labels FILE --top K`: the best classes of fetched scores, by name.

scores:0  the 2 best of 1000
    0.912  281  tabby
    0.034  285  Egyptian cat
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.cli.digits import widened
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.core.arrays import to_array
from flowengine.core.shapes import TensorShape

#: How many classes are shown where only labels are given.
TOP: Final = 5
#: An item of a label map, and its fields in quotes or as a number.
_ITEM: Final = re.compile(r"item\s*:?\s*\{([^}]*)\}")
_FIELD: Final = re.compile(r"""(\w+)\s*:\s*(?:(["'])(.*?)\2|(\d+))""")
#: No map of classes has more.
_CLASSES_MAX: Final = 1_000_000
#: Rows of a batch that are shown.
_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of classes, one a line of the file (empty: none are known), and how many to show.

    is_counted   whether the user has said how many
    """

    names: tuple[str, ...]
    top: int
    is_counted: bool = False

    def fits(self, array: Any) -> bool:
        """Whether these are scores: numbers, whose last dimension is the classes."""
        if array.ndim == 0 or array.dtype.kind not in "fiuV" or not array.size:
            return False
        classes: int = array.shape[-1]
        return classes == len(self.names) if self.names else classes > 1


def read_labels(path: str | None, top: int | None) -> Labels | None:
    """Read the labels of `--labels` and `--top`; None without either.

    Raises CommandError if the file cannot be read.
    """
    if path is None:
        return None if top is None else Labels((), top, is_counted=True)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--labels {path}: cannot read it: {error}", USAGE) from error
    if path.lower().endswith(".pbtxt"):
        names = _names_of_map(path, text)
    else:
        names = tuple(line.strip() for line in text.rstrip("\n").split("\n"))
    return Labels(names, top or TOP, is_counted=top is not None)


def _names_of_map(path: str, text: str) -> tuple[str, ...]:
    """The names in a label map of TensorFlow's detectors, by their numbers; CommandError without any."""
    names: dict[int, str] = {}
    for item in _ITEM.findall(text):
        fields = {key: quoted or number for key, _, quoted, number in _FIELD.findall(item)}
        if fields.get("id", "").isdigit() and int(fields["id"]) < _CLASSES_MAX:
            names[int(fields["id"])] = fields.get("display_name") or fields.get("name", "")
    if not names:
        raise CommandError(f"--labels {path}: it has no item with an id and a name", USAGE)
    return tuple(names.get(number, "") for number in range(max(names) + 1))


def check_fits(labels: Labels, values: Mapping[str, Any]) -> None:
    """CommandError where no value has the classes that the labels name."""
    shapes = {name: to_array(value) for name, value in values.items() if value is not None}
    if any(labels.fits(array) for array in shapes.values()):
        return
    wanted = f"{len(labels.names)} numbers in its last dimension" if labels.names else "a row of numbers"
    have = ", ".join(f"{name} {list(array.shape)}" for name, array in shapes.items())
    raise CommandError(f"--labels: no value has {wanted} ({have or 'nothing was fetched'})", STEP_ERROR)


def check_shapes(labels: Labels, shapes: Mapping[str, TensorShape]) -> None:
    """CommandError where no tensor of these shapes can have the classes that the labels name."""
    last = [shape.dims[-1] if shape.dims else None for shape in shapes.values() if shape.rank != 0]
    if labels.names and shapes and not any(size in (None, len(labels.names)) for size in last):
        have = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise CommandError(
            f"--labels: no value has {len(labels.names)} numbers in its last dimension ({have})", STEP_ERROR
        )


def best(labels: Labels, array: Any) -> list[list[dict[str, Any]]]:
    """For each row of scores its best classes, the best first: index, label ("" if unknown), score."""
    rows = array.reshape(-1, array.shape[-1])
    return [[_entry(labels, row, int(index)) for index in _order(row)[: labels.top]] for row in rows]


def _order(row: Any) -> Any:
    """Indices from the highest score down, equal ones by index, NaN last."""
    scores = row.astype(np.float64)
    return np.lexsort((np.arange(row.size), -scores, np.isnan(scores)))


def _entry(labels: Labels, row: Any, index: int) -> dict[str, Any]:
    score = float(widened(row[index]))
    return {
        "index": index,
        "label": labels.names[index] if labels.names else "",
        "score": score if math.isfinite(score) else str(score),
    }


def document(labels: Labels, values: Mapping[str, Any]) -> dict[str, Any]:
    """{name: rows of the best classes} of the values that are scores."""
    return {name: best(labels, array) for name, array in _scores(labels, values)}


def texts(labels: Labels, values: Mapping[str, Any]) -> dict[str, str]:
    """{name: its best classes as text} of the values that are scores."""
    return {name: _text(labels, name, array) for name, array in _scores(labels, values)}


def _scores(labels: Labels, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if value is not None and labels.fits(array := to_array(value)):
            yield name, array


def _text(labels: Labels, name: str, array: Any) -> str:
    rows = best(labels, array)
    count = min(labels.top, array.shape[-1])
    words = "the best" if count == 1 else f"the {count} best"
    lines = [f"{printable(name)}  {words} of {array.shape[-1]}"]
    for number, row in enumerate(rows[:_ROWS]):
        if len(rows) > 1:
            lines.append(f"  row {number}")
        for each in row:
            score = each["score"]
            shown = f"{score:.4g}" if isinstance(score, float) else score
            lines.append(f"  {shown:>9}  {each['index']:>5}  {printable(each['label'])}".rstrip())
    if len(rows) > _ROWS:
        lines.append(f"  and {len(rows) - _ROWS} more rows: --json has them")
    return "\n".join(lines)
