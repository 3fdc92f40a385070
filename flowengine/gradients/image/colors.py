"""Colours of images: from red, green and blue to hue, saturation and value."""

from __future__ import annotations

from typing import Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

#: Row c: which channels' difference the hue is made of where channel c is the greatest.
_DIFFERENCES: Final = ((0, 1, -1), (-1, 0, 1), (1, -1, 0))


@gradient("RGBToHSV")
def rgb_to_hsv(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Gradients by red, green and blue.

    With the greatest channel v, the least one m and their spread c = v - m: the hue is a sixth of the
    difference of the two other channels by c, but for a constant; the saturation is 1 - m / v, the value v.
    Where c or v is zero the hue or the saturation is flat.
    """
    o, x = b.ops, op.inputs[0]
    kind, last, three = x.dtype.base, b.constant(-1, "int32"), b.constant(3, "int32")
    one, zero = b.constant(1, kind), b.constant(0, kind)
    which = o.ArgMax(x, last, output_type="int32")
    greatest = o.OneHot(which, three, one, zero)
    least = o.OneHot(o.ArgMin(x, last, output_type="int32"), three, one, zero)

    def total(t: Tensor) -> Tensor:
        found: Tensor = o.Sum(t, last, keep_dims=True)
        return found

    value, bottom = total(o.Mul(x, greatest)), total(o.Mul(x, least))
    spread = o.Sub(value, bottom)
    by_hue, by_saturation, by_value = o.Split(last, grad, num_split=3)
    difference = o.GatherV2(b.constant(_DIFFERENCES, kind), which, b.constant(0, "int32"))
    sixth = o.DivNoNan(by_hue, o.Mul(b.constant(6, kind), spread))
    steepness = o.DivNoNan(total(o.Mul(x, difference)), spread)
    through_hue = o.Mul(sixth, o.Sub(difference, o.Mul(steepness, o.Sub(greatest, least))))
    share = o.DivNoNan(by_saturation, value)
    through_saturation = o.Mul(share, o.Sub(o.Mul(o.DivNoNan(bottom, value), greatest), least))
    return [o.AddV2(o.AddV2(through_hue, through_saturation), o.Mul(by_value, greatest))]
