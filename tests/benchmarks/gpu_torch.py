"""A network of `gpu_nets.py` trained by PyTorch.

    python -m tests.benchmarks.gpu_torch NAME BATCH NARROW STEPS [--cpu] [--compile] [--tf32]
    python -m tests.benchmarks.gpu_torch --launches LENGTH [--cpu] [--compile]      # for `gpu_launches.py`

Eager with `cudnn.benchmark`, or `torch.compile`; in float32, or with TensorFloat-32. Prints a line of JSON:
{first, step: seconds; loss: after so many steps; bytes: of the card that it had}. Run by `gpu_networks.py`,
under any Python that has PyTorch and NumPy; it uses nothing of this package.
"""

from __future__ import annotations

import importlib
import json
import sys
from statistics import median
from time import perf_counter, process_time
from typing import Any

from tests.benchmarks.gpu_nets import RATE, NetLayers, images_and_labels, logits, same_padding


class TorchLayers(NetLayers):
    """Layers of PyTorch: (batch, high, wide, channels) outside, its channels-last form within."""

    def __init__(self, torch: Any, images: Any, narrow: int, place: str) -> None:
        super().__init__(torch.from_numpy(images).to(place), narrow)
        self._torch = torch
        self._place = place

    def made(self, value: Any) -> Any:
        weight = self._torch.from_numpy(value).to(self._place)
        return weight.requires_grad_()

    def join(self, *parts: Any) -> Any:
        return self._torch.cat(parts, 3)

    def _padded(self, x: Any, window: int, stride: int, padding: str, fill: float = 0.0) -> Any:
        """x as (batch, channels, high, wide), with what SAME puts around it."""
        x = x.permute(0, 3, 1, 2)
        if padding == "VALID":
            return x
        high, wide = (same_padding(int(size), window, stride) for size in x.shape[2:])
        return self._torch.nn.functional.pad(x, (*wide, *high), value=fill)

    def _conv(self, x: Any, filters: Any, bias: Any, stride: int, padding: str) -> Any:
        functional = self._torch.nn.functional
        padded = self._padded(x, int(filters.shape[0]), stride, padding)
        y = functional.conv2d(padded, filters.permute(3, 2, 0, 1), bias, stride)
        return y.permute(0, 2, 3, 1)

    def rectified(self, x: Any) -> Any:
        return self._torch.nn.functional.relu(x)

    def _pool(self, x: Any, window: int, stride: int, padding: str, *, mean: bool) -> Any:
        functional = self._torch.nn.functional
        padded = self._padded(x, window, stride, padding, 0.0 if mean else -float("inf"))
        pool = functional.avg_pool2d if mean else functional.max_pool2d
        return pool(padded, window, stride).permute(0, 2, 3, 1)

    def _dense(self, x: Any, weights: Any, bias: Any, relu: bool) -> Any:
        y = x.reshape(x.shape[0], -1) @ weights + bias
        return self._torch.nn.functional.relu(y) if relu else y


def trained(name: str, batch: int, narrow: int, steps: int, options: set[str]) -> dict[str, float]:
    """See the module."""
    torch = importlib.import_module("torch")
    place = "cpu" if "--cpu" in options else "cuda"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = "--tf32" in options
    images, numbers = images_and_labels(name, batch, narrow)
    labels = torch.from_numpy(numbers).to(place).long()
    net = TorchLayers(torch, images, narrow, place)
    with torch.no_grad():
        logits(name, net)  # makes the weights

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(logits(name, net), labels)

    compiled = torch.compile(loss) if "--compile" in options else loss
    optimizer, taken = torch.optim.SGD(net.weights, RATE), list[float]()
    value: Any = None
    for _ in range(steps):
        started = perf_counter()
        optimizer.zero_grad()
        value = compiled()
        value.backward()
        optimizer.step()
        if place == "cuda":
            torch.cuda.synchronize()
        taken.append(perf_counter() - started)
    used = torch.cuda.max_memory_reserved() if place == "cuda" else 0
    step = median(taken[len(taken) // 2 :])
    return {"first": taken[0], "step": step, "loss": float(value.detach()), "bytes": used}


def launches(length: int, options: set[str]) -> dict[str, float]:
    """{us: microseconds of the CPU for a chain}: products of 32 x 32, or with --compile tanh after tanh."""
    torch = importlib.import_module("torch")
    place = "cpu" if "--cpu" in options else "cuda"
    x = torch.eye(32, device=place)

    def products() -> Any:
        y = x
        for _ in range(length):
            y = y @ x
        return y.sum()

    def elementwise() -> Any:
        y = x
        for _ in range(length):
            y = torch.tanh(y)
        return y.sum()

    work = torch.compile(elementwise) if "--compile" in options else products
    taken = list[float]()
    with torch.no_grad():
        for _ in range(30):
            before = process_time()
            work()
            taken.append((process_time() - before) * 1e6)
            if place == "cuda":
                torch.cuda.synchronize()
    return {"us": median(taken[15:])}


def main(words: list[str]) -> None:
    if "--launches" in words:
        length = next(word for word in words if word.isdigit())
        print(json.dumps(launches(int(length), set(words))))
        return
    name, batch, narrow, steps = [word for word in words if not word.startswith("-")]
    print(json.dumps(trained(name, int(batch), int(narrow), int(steps), set(words))))


if __name__ == "__main__":
    main(sys.argv[1:])
