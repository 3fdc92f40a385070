"""The names of a detector's outputs, by which every run sees whether it needs what shows detected objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BOXES: Final = "detection_boxes"
SCORES: Final = "detection_scores"
CLASSES: Final = "detection_classes"
COUNT: Final = "num_detections"
#: Outputs that every detector has.
NEEDED: Final = (BOXES, SCORES, CLASSES)


def is_detector(names: Iterable[str]) -> bool:
    """Whether values of these names are detected objects."""
    return set(NEEDED) <= {plain(name) for name in names}


def plain(name: str) -> str:
    """Return the name of an output without its scope and slot."""
    return name.removesuffix(":0").rpartition("/")[2]


__all__ = ["BOXES", "CLASSES", "COUNT", "NEEDED", "SCORES", "is_detector", "plain"]
