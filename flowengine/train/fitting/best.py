"""`BestEpoch`: in which epoch a number was best, and whether that was too long ago."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from flowengine.core.errors import InvalidArgumentError


class BestEpoch:
    """Watches one number of the epochs.

    name       of the number
    direction  whether the "lowest" or the "highest" is best
    patience   so many epochs without a better one end the training; None for never
    min_delta  by how much a better one must be better to count for patience
    every      whether every epoch is saved, rather than those that are the best so far
    """

    def __init__(
        self,
        name: str,
        direction: Literal["lowest", "highest"],
        *,
        patience: int | None = None,
        min_delta: float = 0.0,
        every: bool = True,
    ) -> None:
        if direction not in ("lowest", "highest"):
            raise InvalidArgumentError(f"best is 'lowest' or 'highest', not {direction!r}")
        if patience is not None and patience < 1:
            raise InvalidArgumentError(f"patience={patience} must be at least 1, or None")
        if not min_delta >= 0:
            raise InvalidArgumentError(f"min_delta={min_delta} must not be negative")
        self.name = name
        self._sign = 1.0 if direction == "lowest" else -1.0
        self._patience = patience
        self._min_delta = min_delta
        self._every = every
        #: The best number and its epoch: the last one of equal numbers, as a saver has it, and never NaN.
        self._value = math.inf
        self.epoch: int | None = None
        #: How many steps the model had made then.
        self.step = 0
        #: The number that a better one must beat, and how many epochs have not.
        self._reference = math.inf
        self._waited = 0

    def look(self, value: float, epoch: int, step: int) -> None:
        """Note the number of an epoch."""
        signed = self._sign * value
        if signed <= self._value:
            self._value, self.epoch, self.step = signed, epoch, step
        if self._reference - signed > self._min_delta or (
            math.isinf(self._reference) and signed < self._reference
        ):
            self._reference, self._waited = signed, 0
        else:
            self._waited += 1

    def keeps(self, epoch: int) -> bool:
        """Return whether this epoch is to be saved."""
        return self._every or self.epoch == epoch

    @property
    def reason_to_stop(self) -> str:
        """Why the training is to end; empty if it is not."""
        if self._patience is None or self._waited < self._patience:
            return ""
        reference = f"{self._sign * self._reference:.6g}"
        return f"'{self.name}' has not been better than {reference} for {self._waited} epochs"

    def state_dict(self) -> dict[str, Any]:
        """Return its state for a checkpoint."""
        return {"name": self.name, "sign": self._sign}

    def load_state_dict(self, state: Mapping[str, Any], epochs: Iterable[tuple[float, int]]) -> None:
        """Look at the number and the step of each epoch that a checkpoint has; patience may be another one.

        InvalidArgumentError if the checkpoints were kept by another number.
        """
        if state["name"] != self.name or state["sign"] != self._sign:
            kept = "lowest" if state["sign"] > 0 else "highest"
            raise InvalidArgumentError(
                f"the directory's checkpoints are kept by the {kept} '{state['name']}': name the same "
                "monitor= and best=, or another directory="
            )
        for epoch, (value, step) in enumerate(epochs):
            self.look(value, epoch, step)


__all__ = ["BestEpoch"]
