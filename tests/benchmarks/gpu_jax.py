"""A network of `gpu_nets.py` trained by JAX.

    python -m tests.benchmarks.gpu_jax NAME BATCH NARROW STEPS [--cpu] [--tf32]

Prints a line of JSON: {first, step: seconds; loss: after so many steps}. Run by `gpu_networks.py`, under any
Python that has JAX and NumPy; it uses nothing of this package.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from statistics import median
from time import perf_counter
from typing import Any

from tests.benchmarks.gpu_nets import RATE, NetLayers, images_and_labels, logits


class JaxLayers(NetLayers):
    """Layers of JAX."""

    def __init__(self, jax: Any, images: Any, narrow: int) -> None:
        super().__init__(images, narrow)
        self._jax = jax

    def join(self, *parts: Any) -> Any:
        return self._jax.numpy.concatenate(parts, 3)

    def _conv(self, x: Any, filters: Any, bias: Any, stride: int, padding: str) -> Any:
        y = self._jax.lax.conv_general_dilated(
            x, filters, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return y + bias

    def rectified(self, x: Any) -> Any:
        return self._jax.nn.relu(x)

    def _pool(self, x: Any, window: int, stride: int, padding: str, *, mean: bool) -> Any:
        lax = self._jax.lax
        sizes, steps = (1, window, window, 1), (1, stride, stride, 1)
        if not mean:
            return lax.reduce_window(x, -float("inf"), lax.max, sizes, steps, padding)
        return lax.reduce_window(x, 0.0, lax.add, sizes, steps, padding) / (window * window)

    def _dense(self, x: Any, weights: Any, bias: Any, relu: bool) -> Any:
        y = x.reshape(x.shape[0], -1) @ weights + bias
        return self._jax.nn.relu(y) if relu else y


def trained(name: str, batch: int, narrow: int, steps: int, *, is_short: bool = False) -> dict[str, float]:
    """See the module."""
    jax = importlib.import_module("jax")
    # By itself it rounds factors on a card.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if is_short else "highest")
    images, labels = images_and_labels(name, batch, narrow)
    net = JaxLayers(jax, images, narrow)
    logits(name, net)  # makes the weights

    def loss(weights: Any, images: Any) -> Any:
        net.weights, net.images = list(weights), images
        found = jax.nn.log_softmax(logits(name, net))
        return -found[jax.numpy.arange(batch), labels].mean()

    def step(weights: Any, images: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, images)
        return value, [w - RATE * g for w, g in zip(weights, gradients, strict=True)]

    compiled: Any = jax.jit(step)
    value: Any = None
    weights, taken = [jax.numpy.asarray(w) for w in net.weights], list[float]()
    there = jax.numpy.asarray(images)
    for _ in range(steps):
        started = perf_counter()
        value, weights = compiled(weights, there)
        jax.block_until_ready(weights)
        taken.append(perf_counter() - started)
    return {"first": taken[0], "step": median(taken[len(taken) // 2 :]), "loss": float(value)}


def main(words: list[str]) -> None:
    if "--cpu" in words:
        os.environ["JAX_PLATFORMS"] = "cpu"
    name, batch, narrow, steps = [word for word in words if not word.startswith("-")]
    print(json.dumps(trained(name, int(batch), int(narrow), int(steps), is_short="--tf32" in words)))


if __name__ == "__main__":
    main(sys.argv[1:])
