"""Feeds of the training recipes in each step: the same for both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.client.model_feeds import UNITS, WORDS, N, T

RECIPES = ("batch_norm", "mixture", "tied", "penalty", "autoencoder", "rollout")
STEPS = 50


def feeds(recipe: str, step: int) -> dict[str, Any]:
    """{placeholder: value} of one step; floats are float64."""
    random = np.random.RandomState(step)
    if recipe == "batch_norm":
        # Every fifth step is one of inference: it trains with the moving averages, and leaves them alone.
        digits = random.randint(5, size=N).astype(np.int32)
        images = random.normal(size=(N, 6, 6, 2)) + digits[:, None, None, None]
        return {"images": images, "digits": digits, "training": np.array(step % 5 != 4)}
    if recipe == "mixture":
        return {
            "x": random.normal(size=(N, UNITS)),
            "y": random.normal(size=N),
            "first": np.array(step % 3 > 0),
        }
    if recipe == "tied":
        return {"words": random.randint(WORDS, size=(N, T)).astype(np.int32)}
    if recipe == "penalty":
        return {
            "x": random.normal(size=(N, 3)) + 1,
            "z": random.normal(size=(N, 2)),
            "mix": random.rand(N, 1),
        }
    if recipe == "autoencoder":
        return {"x": random.uniform(size=(N, UNITS))}
    if recipe == "rollout":
        return {
            "x": random.normal(size=(N, UNITS)),
            "draws": random.rand(T, N),
            "steps": np.array(step % T + 1, np.int32),
        }
    raise KeyError(recipe)
