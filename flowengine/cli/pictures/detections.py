"""Detected objects, under the names that TensorFlow's detectors give their outputs.

| output | shape | contents |
|---|---|---|
| `detection_boxes` | (N, M, 4) | top, left, bottom, right, as fractions of the height and the width |
| `detection_scores` | (N, M) | how sure the model is, from 0 to 1 |
| `detection_classes` | (N, M) | numbers of classes; in files of labels, line 0 is class 0 |
| `num_detections` | (N,) | how many of the M count; all of them without this output |

The dimension N may be missing. `serve/detection_boxes:0` has the same meaning as `detection_boxes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from flowengine.cli.digits import widened
from flowengine.cli.failure import STEP_ERROR, CommandError, printable
from flowengine.cli.labels import Labels
from flowengine.cli.pictures.naming import COUNT, NEEDED, is_detector, plain
from flowengine.core.arrays import to_array

#: Without --top, objects below this score are not shown, and no more than so many: what TensorFlow's own
#: drawings show.
_SCORE_MIN: Final = 0.5
_SHOWN_MAX: Final = 20
#: Pictures of a batch whose objects are printed.
_PICTURES: Final = 10


@dataclass(frozen=True, slots=True)
class DetectedObject:
    """An object in a picture. `box` is (top, left, bottom, right) in fractions of the picture."""

    score: float
    index: int
    label: str
    box: tuple[float, float, float, float]

    @property
    def title(self) -> str:
        """The label, or the number of a class without a label."""
        return printable(self.label) or f"class {self.index}"


@dataclass(frozen=True, slots=True)
class DetectionResults:
    """The objects of each picture that are shown, the surest first.

    names   the values that they come from, which need not be shown otherwise
    found   how many objects each picture has in all
    """

    names: frozenset[str]
    pictures: list[list[DetectedObject]]
    found: list[int]


def detections_in(values: Mapping[str, Any], labels: Labels | None) -> DetectionResults | None:
    """Collect the objects among fetched values; None if the values are no detections.

    labels   names of classes, and how many objects of a picture to show, if the user asked for that

    Raises CommandError for outputs whose shapes do not fit together.
    """
    if not is_detector(values):
        return None
    named = {plain(name): name for name in values if plain(name) in (*NEEDED, COUNT)}
    arrays = {plain: to_array(values[name]) for plain, name in named.items()}
    boxes, scores, classes = (arrays[plain] for plain in NEEDED)
    if boxes.ndim == scores.ndim + 1 == 2:
        boxes, scores, classes = boxes[np.newaxis], scores[np.newaxis], classes[np.newaxis]
    if boxes.shape != (*scores.shape, 4) or scores.ndim != 2 or classes.shape != scores.shape:
        shapes = ", ".join(f"{plain} {list(arrays[plain].shape)}" for plain in NEEDED)
        raise CommandError(
            f"the shapes of the detections do not fit together ({shapes}): fetch boxes (N, M, 4), "
            "scores (N, M) and classes (N, M)",
            STEP_ERROR,
        )
    counts = np.broadcast_to(arrays.get(COUNT, np.array(scores.shape[1])).ravel(), scores.shape[:1])
    found = [min(max(int(count), 0), scores.shape[1]) for count in counts]
    pictures = [
        _objects(boxes[row, :count], scores[row, :count], classes[row, :count], labels)
        for row, count in enumerate(found)
    ]
    return DetectionResults(frozenset(named.values()), pictures, found)


def _objects(boxes: Any, scores: Any, classes: Any, labels: Labels | None) -> list[DetectedObject]:
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if labels is not None and labels.is_counted:
        order = order[: labels.top]
    else:
        order = order[scores[order] >= _SCORE_MIN][:_SHOWN_MAX]
    names = () if labels is None else labels.names
    found = []
    for at in order.tolist():
        index = int(classes[at])
        label = names[index] if 0 <= index < len(names) else ""
        top, left, bottom, right = widened(boxes[at]).tolist()
        found.append(DetectedObject(float(widened(scores[at])), index, label, (top, left, bottom, right)))
    return found


def text(results: DetectionResults, paths: Sequence[str]) -> str:
    """Show the objects as a table, a part for each picture. `paths` are the pictures, as far as known."""
    lines = []
    for number, objects in enumerate(results.pictures[:_PICTURES]):
        where = f" in {printable(paths[number])}" if number < len(paths) else ""
        lines.append(f"detections{where}  {len(objects)} of {results.found[number]}")
        for each in objects:
            box = "  ".join(f"{side:.3f}" for side in each.box)
            lines.append(f"  {each.score:>9.4g}  {each.index:>5}  {box}  {printable(each.label)}".rstrip())
    if len(results.pictures) > _PICTURES:
        lines.append(f"and {len(results.pictures) - _PICTURES} more pictures: --json has them")
    return "\n".join(lines)


def document(results: DetectionResults) -> list[list[dict[str, Any]]]:
    """The objects of each picture, in a form that JSON can hold."""
    return [[asdict(each) for each in objects] for objects in results.pictures]


__all__ = ["DetectedObject", "DetectionResults", "detections_in", "document", "text"]
