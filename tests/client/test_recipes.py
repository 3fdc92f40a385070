"""Training recipes as the guides write them, beside TensorFlow 1.15: each loss, and every variable.

What TensorFlow found is recorded by `recipes_tensorflow.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.client import recipes, replayed
from tests.client.recipe_feeds import RECIPES, STEPS


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_variable_moves_as_in_tensorflow(recipe: str) -> None:
    said = replayed.expected("recipes")
    wanted = {key.partition("|")[2]: value for key, value in said.items() if key.startswith(f"{recipe}|")}
    got = recipes.trained(recipe)
    assert len(got["losses"]) == STEPS
    assert set(wanted) <= set(got)
    for key, value in wanted.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-9, err_msg=f"{recipe} {key}")
