"""What is fetched has the type that its node says, or an error tells that it has not."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.runtime.planning.values import FetchSpec


@pytest.mark.parametrize("value", [np.zeros(4, np.uint8), np.array(1, np.uint8), np.uint8(1)])
def test_codes_of_another_type_are_told(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="'x:0' is to have dtype quint16, its value has uint8"):
        FetchSpec("x:0", dtypes.quint16).convert([value], 0)


@pytest.mark.parametrize("op", ["QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"])
async def test_codes_are_not_given_as_another_type(op: str) -> None:
    g = fe.Graph()
    codes = g.placeholder("quint8", [4], name="codes")
    rest = [5.0] if op == "QuantizedReluX" else []
    getattr(g.ops, op)(codes, *rest, -1.0, 13.0, out_type="quint16", name="y")
    async with fe.Session(g) as session:
        with pytest.raises(OpError, match="out_type"):
            await session.run("y:0", {"codes:0": np.arange(4, dtype=np.uint8)})
