"""Values that hold the state of an iterator, and values that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto import VariantTensorDataProto
from flowengine.ir.tensorproto import VariantData
from flowengine.resources.data.state_coding import decode_state


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.zeros((2, 3), np.float32), r"a value of float32\[2,3\] is not the state of an iterator"),
        (np.array([b"x", b"y"], object), r"a value of string\[2\]"),
        (
            VariantData("tensorflow::Iterator", b"", (), VariantTensorDataProto()),
            "a value of variant 'tensorflow::Iterator' is not .*that TensorFlow saved cannot be read",
        ),
    ],
)
def test_another_value_is_no_state(value: Any, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        decode_state(value, lambda _: pytest.fail("no dataset is in it"))
