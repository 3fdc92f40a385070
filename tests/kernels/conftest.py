"""`run_op`: one op by name on values, through its signature, the kernel registry and the binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.ir.graph import Node
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry


def _type_of(value: Any) -> dtypes.DType:
    return dtypes.as_dtype(to_array(value).dtype)


@pytest.fixture(scope="session")
def run_op() -> Callable[..., Any]:
    """`run_op(op, *inputs, types={}, **attrs)`: the outputs as a tuple. A list input is a tuple or list.

    Types and counts are read off the inputs; `types` overrides those that NumPy cannot tell (qint8).
    """
    ops, kernels = registry(), load_all()

    def run(op: str, *inputs: Any, types: dict[str, Any] | None = None, **given: Any) -> tuple[Any, ...]:
        definition = ops[op]
        attrs = definition.with_defaults(given)
        for argument, value in zip(definition.inputs, inputs, strict=True):
            values = value if isinstance(value, list | tuple) else [value]
            if argument.number_attr is not None:
                attrs.setdefault(argument.number_attr, len(values))
            if argument.type_list_attr is not None:
                attrs.setdefault(argument.type_list_attr, tuple(_type_of(v) for v in values))
            if argument.type_attr is not None and argument.type_attr not in given and values:
                attrs[argument.type_attr] = _type_of(values[0])
        attrs.update({name: dtypes.as_dtype(dtype) for name, dtype in (types or {}).items()})
        node = Node("node", op, attrs=attrs, op_def=definition, output_types=definition.output_types(attrs))
        call = kernels.find(node).bind(node)
        arguments = [tuple(v) if isinstance(v, list | tuple) else v for v in inputs]
        with np.errstate(all="ignore"):
            result = call(*arguments)
        count = len(node.output_types)
        outputs = () if count == 0 else (result,) if count == 1 else tuple(result)
        assert len(outputs) == count
        return outputs

    return run
