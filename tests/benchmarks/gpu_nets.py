"""The networks of `make_networks.py` in any library: layers, weights, and the loss of a training step.

A `NetLayers` is what those networks are written against. One of a library brings four functions; weights are
the same numbers in each, images and labels as well, so losses can be compared.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.benchmarks.make_networks import NETWORKS

#: The batch of each network that is trained on a card.
BATCHES: Final = {"alexnet": 128, "overfeat": 128, "vgg_a": 64, "googlenet": 128, "resnet_50": 64}
RATE: Final = 0.001
#: How far losses of libraries may be apart: sums of millions of float32 in another order, over several steps.
TOLERANCE: Final = 2e-2


def same_padding(size: int, window: int, stride: int) -> tuple[int, int]:
    """(before, behind) one axis, as SAME has it: an odd one is put behind."""
    missing = max((-(-size // stride) - 1) * stride + window - size, 0)
    return missing // 2, missing - missing // 2


class NetLayers:
    """Layers after one another. Subclasses have `_conv`, `_pool`, `_dense`, `rectified` and `join`.

    images    (batch, size, size, 3), as the library has them
    weights   what the layers have asked for, in order; those that are there already are used again
    narrow    numbers of channels are divided by it, where a script is only tried
    """

    def __init__(self, images: Any, narrow: int = 1) -> None:
        self.images = images
        self.weights: list[Any] = []
        self._narrow = narrow
        self._count = 0

    def begin(self) -> None:
        """The next layer is the first one again."""
        self._count = 0

    def made(self, value: np.ndarray[Any, Any]) -> Any:
        """A weight of the library."""
        return value

    def variable(self, shape: list[int], scale: float) -> Any:
        """The next weight."""
        if self._count == len(self.weights):
            noise = np.sin(np.arange(int(np.prod(shape)), dtype=np.float32) * 12.9898 + self._count + 1)
            self.weights.append(self.made((noise * scale).reshape(shape).astype(np.float32)))
        self._count += 1
        return self.weights[self._count - 1]

    def _width(self, outputs: int) -> int:
        return max(outputs // self._narrow, 1)

    def conv(
        self,
        x: Any,
        outputs: int,
        window: Any,
        stride: int = 1,
        padding: str = "SAME",
        *,
        norm: bool = False,
        relu: bool = True,
        gain: float = 4.0,
    ) -> Any:
        """Convolution, bias and rectifier; a normalisation by known numbers is in filters and bias."""
        inputs, outputs = int(x.shape[3]), self._width(outputs)
        high, wide = window if isinstance(window, tuple) else (window, window)
        filters = self.variable([high, wide, inputs, outputs], (gain / (high * wide * inputs)) ** 0.5)
        y = self._conv(x, filters, self.variable([outputs], 0.1), stride, padding)
        return self.rectified(y) if relu else y

    def pool(self, x: Any, window: int = 2, stride: int = 2, padding: str = "VALID") -> Any:
        """The largest of each window."""
        return self._pool(x, window, stride, padding, mean=False)

    def mean(self, x: Any, window: int, stride: int = 1, padding: str = "VALID") -> Any:
        """The mean of each window."""
        return self._pool(x, window, stride, padding, mean=True)

    def dense(self, x: Any, outputs: int, relu: bool = True) -> Any:
        """A product with all that comes in, bias, and a rectifier but for the last one."""
        inputs = int(np.prod([int(size) for size in tuple(x.shape)[1:]]))
        outputs = self._width(outputs)
        weights = self.variable([inputs, outputs], (2.0 / inputs) ** 0.5)
        return self._dense(x, weights, self.variable([outputs], 0.1), relu)

    def join(self, *parts: Any) -> Any:
        """Channels behind one another."""
        raise NotImplementedError

    def rectified(self, x: Any) -> Any:
        """x, or 0 below it."""
        raise NotImplementedError

    def _conv(self, x: Any, filters: Any, bias: Any, stride: int, padding: str) -> Any:
        raise NotImplementedError

    def _pool(self, x: Any, window: int, stride: int, padding: str, *, mean: bool) -> Any:
        raise NotImplementedError

    def _dense(self, x: Any, weights: Any, bias: Any, relu: bool) -> Any:
        raise NotImplementedError


def resnet_50(net: NetLayers) -> Any:
    """Residual blocks of three convolutions, whose normalisation is in their filters and biases."""
    x = net.pool(net.conv(net.images, 64, 7, 2), 3, 2, "SAME")
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            beside = x if block else net.conv(x, 4 * inner, 1, step, relu=False, gain=2.0)
            y = net.conv(net.conv(x, inner, 1), inner, 3, step)
            x = net.rectified(net.conv(y, 4 * inner, 1, relu=False, gain=0.2) + beside)
    return net.dense(net.mean(x, 7), 1000, relu=False)


#: {network: (its layers, the side of its images)}
_NETWORKS: Final[dict[str, tuple[Any, int]]] = {
    **{name: (entry[0], int(str(entry[1]))) for name, entry in NETWORKS.items()},
    "resnet_50": (resnet_50, 224),
}


def logits(name: str, net: NetLayers) -> Any:
    """Return the logits of a network for its images."""
    net.begin()
    return _NETWORKS[name][0](net)


def images_and_labels(
    name: str, batch: int, narrow: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(batch, size, size, 3) float32 and (batch,) int32: the same in every library."""
    size = _NETWORKS[name][1]
    images = np.random.default_rng(0).random((batch, size, size, 3), np.float32)
    return images, (np.arange(batch) % max(1000 // narrow, 1)).astype(np.int32)


__all__ = ["BATCHES", "RATE", "TOLERANCE", "NetLayers", "images_and_labels", "logits", "same_padding"]
