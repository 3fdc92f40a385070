"""A step of the tutorial's `fit` on digits, beside a loop that is written by hand and Keras' `fit`."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe

FIT: Final = "digits_fit"
_EXAMPLES: Final = Path(__file__).resolve().parents[2] / "docs" / "examples"
_PEER: Final = Path(__file__).with_name("roads_keras.py")
_BATCH: Final = 32
#: Epochs before any is timed, and epochs of which the fastest counts.
_WARM, _TIMED = 2, 4


def _tutorial() -> tuple[Any, dict[str, Any]]:
    """Return the tutorial's module, with a graph of its own, and its data."""
    spec = importlib.util.spec_from_file_location("train_digits", _EXAMPLES / "train_digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.load(_EXAMPLES / "digits.npz") as data:
        return module, {"images": data["train_images"], "labels": data["train_labels"]}


def _arguments(tutorial: Any, data: dict[str, Any], epochs: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    fed = {tutorial.images: data["images"], tutorial.labels: data["labels"]}
    named = {
        "epochs": epochs,
        "batch_size": _BATCH,
        "fetches": {"loss": tutorial.loss},
        "feeds": {tutorial.training: True, tutorial.rate: 0.01},
        "quiet": True,
    }
    return (tutorial.step, fed), named


def _steps(data: dict[str, Any]) -> int:
    return -(-len(data["images"]) // _BATCH)


async def _by_hand() -> float:
    """Return the microseconds of a step of a loop that shuffles, feeds and fetches by itself."""
    tutorial, data = _tutorial()
    random = np.random.default_rng(0)
    async with fe.Session(tutorial.graph) as session:
        await session.initialize()
        least = float("inf")
        for epoch in range(_WARM + _TIMED):
            begun, order = perf_counter(), random.permutation(len(data["images"]))
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                feeds = {
                    tutorial.images: data["images"][rows],
                    tutorial.labels: data["labels"][rows],
                    tutorial.training: True,
                    tutorial.rate: 0.01,
                }
                await session.run([tutorial.loss, tutorial.step], feeds)
            if epoch >= _WARM:
                least = min(least, perf_counter() - begun)
    return least / _steps(data) * 1e6


async def _by_fit() -> float:
    tutorial, data = _tutorial()
    async with fe.Session(tutorial.graph) as session:
        least = float("inf")
        for turn in range(_WARM + _TIMED):
            arguments, named = _arguments(tutorial, data, 1)
            begun = perf_counter()
            await fe.train.fit(session, *arguments, **named)
            if turn >= _WARM:
                least = min(least, perf_counter() - begun)
    return least / _steps(data) * 1e6


def _by_blocking_fit() -> float:
    tutorial, data = _tutorial()
    with fe.blocking.Session(tutorial.graph) as session:
        least = float("inf")
        for turn in range(_WARM + _TIMED):
            arguments, named = _arguments(tutorial, data, 1)
            begun = perf_counter()
            fe.blocking.fit(session, *arguments, **named)
            if turn >= _WARM:
                least = min(least, perf_counter() - begun)
    return least / _steps(data) * 1e6


def fit_times(tensorflow: str | None) -> tuple[dict[str, float], float | None]:
    """Return {door: microseconds a step}, and those of Keras' `fit` where its Python is given.

    "list" is the loop that is written by hand; "trio" and "blocking" are `fit`.
    """
    found = {"list": trio.run(_by_hand), "trio": trio.run(_by_fit), "blocking": _by_blocking_fit()}
    if tensorflow is None:
        return found, None
    command = [tensorflow, str(_PEER), str(_EXAMPLES / "digits.npz")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return found, float(done.stdout.splitlines()[-1])
