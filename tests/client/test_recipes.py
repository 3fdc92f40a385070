"""Training recipes as the guides write them, beside TensorFlow 1.15: each loss, and every variable.

What TensorFlow found is recorded by `recipes_tensorflow.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.client import recipes, replayed
from tests.client.model_feeds import first_value
from tests.client.recipe_feeds import RECIPES, STEPS

#: Variables that a recipe does not train, or on which its loss does not depend: biases that cancel out.
FIXED: Final = {"world/move", "judge/score/bias", "multi_head_attention/key/bias"}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_variable_moves_as_in_tensorflow(recipe: str) -> None:
    said = replayed.expected("recipes")
    wanted = {key.partition("|")[2]: value for key, value in said.items() if key.startswith(f"{recipe}|")}
    got = recipes.trained(recipe)
    assert len(got["losses"]) == STEPS
    assert set(wanted) <= set(got)
    for key, value in wanted.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-9, err_msg=f"{recipe} {key}")


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_trained_variable_stays_where_it_was(recipe: str) -> None:
    said = replayed.expected("recipes")
    for key, value in said.items():
        model, _, name = key.partition("|")
        if model == recipe and name != "losses" and name not in FIXED and "/Momentum" not in name:
            assert np.abs(value - first_value(name, value.shape)).max() > 1e-6, name
