"""Counts what Python's collector does while a test looks."""

from __future__ import annotations

import gc
from typing import Any


class Collections:
    """How often the collector comes inside of it. What other tests have left does not count.

    count   of all generations
    """

    def __init__(self) -> None:
        self.count = 0

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        self.count += phase == "start"

    def __enter__(self) -> Collections:
        gc.collect()
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)
