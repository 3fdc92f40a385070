"""Detected objects as `flowengine run` shows them: a table instead of the arrays, and drawings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowengine.cli.failure import STEP_ERROR, CommandError
from flowengine.cli.labels import Labels
from flowengine.cli.pictures.detections import DetectionResults, detections_in, document, text
from flowengine.cli.pictures.drawing import draw


@dataclass(frozen=True, slots=True)
class DetectionView:
    """The objects of a run, if it has found some, with the fed pictures and the folder of --draw."""

    results: DetectionResults | None
    pictures: Sequence[str]
    folder: str | None

    def shown(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Put one table in the place of the arrays that the objects come from."""
        if self.results is None or not texts:
            return dict(texts)
        kept = {name: each for name, each in texts.items() if name not in self.results.names}
        return kept | {"detections": text(self.results, self.pictures)}

    def document(self) -> list[list[dict[str, Any]]]:
        """Return the objects of each picture, in a form that JSON can hold."""
        return [] if self.results is None else document(self.results)

    def draw(self) -> None:
        """Draw on the pictures if the user asked for it; CommandError where there is nothing to draw."""
        if self.folder is None:
            return
        if self.results is None:
            raise CommandError(
                f"--draw {self.folder}: nothing was detected: fetch detection_boxes, detection_scores and "
                "detection_classes",
                STEP_ERROR,
            )
        count = draw(self.folder, self.pictures, self.results)
        print(
            f"drew on {count} picture{'s' if count != 1 else ''} in {self.folder}",
            file=sys.stderr,
            flush=True,
        )


def view_of(
    values: Mapping[str, Any], labels: Labels | None, pictures: Sequence[str], folder: str | None
) -> DetectionView:
    """Return the view of what was fetched, with the pictures that were fed and the folder of `--draw`.

    Raises CommandError for outputs whose shapes do not fit together.
    """
    return DetectionView(detections_in(values, labels), pictures, folder)


__all__ = ["DetectionView", "view_of"]
