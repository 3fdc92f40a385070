"""The place of an index in a random order of all: see `resources/data/by_number/order.py`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel
from flowengine.resources.data.by_number.order import shuffled_index

#: What the key of a round takes, and its place in the list of them.
_KEY_BYTES: Final = 40


def _cost(*_: Any) -> float:
    """Microseconds: the rounds of a new order are gone through for all numbers of 16 bits."""
    return 10_000.0


@kernel("RandomIndexShuffle", device="CPU", fresh=True, heavy=_cost)
def random_index_shuffle(index: Array, seed: Array, max_index: Array, *, rounds: int) -> Any:
    """Where each index, of those up to max_index, stands in the order of its seed.

    index       () or (N,)
    seed        (3,) or (N, 3): those of one order
    max_index   () or (N,)

    Any number of `rounds` is gone through, as long as the step wants it: ResourceExhaustedError where their
    keys are more than it may take. For a CPU: TensorFlow has no kernel for GPUs.
    """
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be even and at least 4, but is {rounds}")
    if seed.ndim not in (1, 2) or seed.shape[-1] != 3:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3], not {brackets(seed.shape)}")
    for name, value in (("index", index), ("max_index", max_index)):
        if value.ndim > 1:
            raise InvalidArgumentError(
                f"{name} must be a scalar or a vector, not of shape {brackets(value.shape)}"
            )
    try:
        shape = np.broadcast_shapes(index.shape, seed.shape[:-1], max_index.shape)
    except ValueError:
        raise InvalidArgumentError(
            "index, seed and max_index must have the same number of elements: "
            f"{brackets(index.shape)}, {brackets(seed.shape)} and {brackets(max_index.shape)}"
        ) from None
    indices = np.broadcast_to(index, shape).reshape(-1).tolist()
    bounds = np.broadcast_to(max_index, shape).reshape(-1).tolist()
    seeds = np.broadcast_to(seed, (*shape, 3)).reshape(-1, 3).tolist()
    for each, bound in zip(indices, bounds, strict=True):
        if not 0 <= each <= bound:
            raise InvalidArgumentError(f"index {each} is not between 0 and max_index, {bound}")
    ask_for(_KEY_BYTES * rounds)
    places = [
        shuffled_index(each, tuple(numbers), bound, rounds)
        for each, numbers, bound in zip(indices, seeds, bounds, strict=True)
    ]
    return np.array(places, index.dtype).reshape(shape)
