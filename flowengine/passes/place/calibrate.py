"""Corrections from measured costs: they find slow devices and misjudged ops.

Each measurement is an estimate times two unknown factors, one of the op and one of the device. Only an op
that was measured on two devices separates them: if it is slower on one of them, relative to its estimates,
the device is the cause. Median polish over such ops finds the devices' factors; the rest is the ops' factors.
A device that shares no op with another keeps the speed of its offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Final

from flowengine.passes.place.device_profiles import Offer

#: Each round halves the remaining error; after so many rounds no error that matters remains.
_TURNS: Final = 12


@dataclass(frozen=True, slots=True)
class Calibration:
    """Corrections of estimates.

    speeds       of each device, in the order of the offers
    op_factors   {op: the factor of its estimates}
    usual        the factor of an op that was not measured
    """

    speeds: tuple[float, ...]
    op_factors: Mapping[str, float]
    usual: float

    def microseconds(self, op: str, estimate: float) -> list[float]:
        """Estimate the microseconds of an unmeasured node on each device."""
        work = estimate * self.op_factors.get(op, self.usual)
        return [work / speed for speed in self.speeds]


def calibrate(offers: Sequence[Offer], measured: Iterable[tuple[str, str, float, float]]) -> Calibration:
    """Corrections from measurements: (op, device name, estimate, measured), microseconds above zero."""
    positions = {str(offer.name): index for index, offer in enumerate(offers)}
    samples: dict[str, dict[int, list[float]]] = {}
    for op, device, estimate, time in measured:
        index = positions.get(device)
        if index is not None:
            samples.setdefault(op, {}).setdefault(index, []).append(log(time / estimate))
    #: {op: {device: measured by estimated time, as a logarithm}}
    slowness = {
        op: {index: median(times) for index, times in by_device.items()} for op, by_device in samples.items()
    }
    speeds = _speeds([log(offer.speed) for offer in offers], slowness)
    factors = {
        op: exp(median([slow + speeds[index] for index, slow in by_device.items()]))
        for op, by_device in slowness.items()
    }
    usual = median(factors.values()) if factors else 1.0
    return Calibration(tuple(exp(speed) for speed in speeds), factors, usual)


def _speeds(offered: Sequence[float], slowness: Mapping[str, Mapping[int, float]]) -> list[float]:
    """Return the logarithm of each device's speed."""
    compared = [by_device for by_device in slowness.values() if len(by_device) > 1]
    speeds = list(offered)
    for _ in range(_TURNS if compared else 0):
        shifts: dict[int, list[float]] = {}
        for by_device in compared:
            factor = sum(slow + speeds[index] for index, slow in by_device.items()) / len(by_device)
            for index, slow in by_device.items():
                shifts.setdefault(index, []).append(factor - slow - speeds[index])
        for index, found in shifts.items():
            speeds[index] += median(found)
    # If all devices are equally faster or slower, the ops are the cause.
    seen = {index for by_device in compared for index in by_device}
    common = median([speeds[index] - offered[index] for index in seen]) if seen else 0.0
    return [speed - common if index in seen else speed for index, speed in enumerate(speeds)]
