"""What measured costs say of devices and ops: which device is slower than offered, which op was misjudged.

Each measurement is an estimate times two unknown factors, one of the op and one of the device. Median
polish tells them apart: in turn, the factor of each op is the median over its nodes with the devices'
factors taken out, and the other way round. What was measured on one device only cannot tell its
speed from the op's factor; then the device's speed stays as offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Final

from flowengine.passes.offers import Offer

#: Two factors are apart after a few turns; more change nothing that matters.
_TURNS: Final = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """Corrections of estimates.

    speeds       of each device, in the order of the offers
    op_factors   {op: what its estimates are to be multiplied with}
    usual        the factor of an op that was not measured
    """

    speeds: tuple[float, ...]
    op_factors: Mapping[str, float]
    usual: float

    def microseconds(self, op: str, estimate: float) -> list[float]:
        """What a node that was not measured costs on each device."""
        work = estimate * self.op_factors.get(op, self.usual)
        return [work / speed for speed in self.speeds]


def calibrate(offers: Sequence[Offer], measured: Iterable[tuple[str, str, float, float]]) -> Calibration:
    """Corrections from measurements: (op, device name, estimate, measured), microseconds above zero."""
    positions = {str(offer.name): index for index, offer in enumerate(offers)}
    offered = [log(offer.speed) for offer in offers]
    speeds = list(offered)
    by_op: dict[str, list[tuple[int, float]]] = {}
    by_device: dict[int, list[tuple[str, float]]] = {}
    for op, device, estimate, time in measured:
        index = positions.get(device)
        if index is not None:
            slowness = log(time / estimate)
            by_op.setdefault(op, []).append((index, slowness))
            by_device.setdefault(index, []).append((op, slowness))
    factors: dict[str, float] = {}
    for _ in range(_TURNS):
        for op, samples in by_op.items():
            factors[op] = median([slowness + speeds[index] for index, slowness in samples])
        shifts = {
            index: median([factors[op] - slowness for op, slowness in samples]) - offered[index]
            for index, samples in by_device.items()
        }
        # All devices faster or slower alike is the ops' factor, not theirs.
        common = median(shifts.values()) if shifts else 0.0
        speeds = [
            base + (shifts[index] - common if index in shifts else 0.0) for index, base in enumerate(offered)
        ]
    return Calibration(
        tuple(exp(speed) for speed in speeds),
        {op: exp(factor) for op, factor in factors.items()},
        exp(median(factors.values())) if factors else 1.0,
    )
