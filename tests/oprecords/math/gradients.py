"""Gradients of elementwise functions that are ops of their own."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.elementwise import SMALL_GRADS, gradient
from tests.oprecords.record import sample

RECORDS: Final = [
    gradient("SigmoidGrad", lambda y, g: y * (1 - y) * g, SMALL_GRADS),
    gradient("TanhGrad", lambda y, g: (1 - y**2) * g, SMALL_GRADS),
    gradient("SqrtGrad", lambda y, g: g * 0.5 / np.conj(y), [sample([0.5, 2.0], [1.0, -3.0])]),
    gradient(
        "RsqrtGrad", lambda y, g: -0.5 * g * np.conj(y) ** 3, [sample([0.5, 2.0], [1.0, -3.0])], loose=3
    ),
    gradient("InvGrad", lambda y, g: -g * np.conj(y) ** 2, SMALL_GRADS),
    gradient("ReciprocalGrad", lambda y, g: -g * np.conj(y) ** 2, SMALL_GRADS),
]
