"""Writes `optimizer_records.jsonl`: run it with a Python that has TensorFlow 1.15.

    python record_optimizers.py

Each line is one Apply op on small variables: its inputs by name, its attributes, and the values of the
variables after the op has run.
"""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import numpy as np

_NUMBERS = {
    "lr": 0.1,
    "alpha": 0.2,
    "l1": 0.05,
    "l2": 0.02,
    "l2_shrinkage": 0.1,
    "lr_power": -0.5,
    "epsilon": 1e-3,
    "rho": 0.9,
    "momentum": 0.8,
    "beta1": 0.9,
    "beta2": 0.99,
    "beta1_power": 0.81,
    "beta2_power": 0.98,
    "logbase": 1.0,
    "sign_decay": 0.9,
    "beta": 0.9,
}


def _inputs(definition: Any, random: Any, variant: int) -> tuple[dict[str, Any], list[str]]:
    variables = [a.name for a in definition.input_arg if a.is_ref or a.type == 20]
    sparse = "Sparse" in definition.name
    rows = [1, 3, 3] if sparse else [0, 1, 2, 3]
    inputs: dict[str, Any] = {}
    for argument in definition.input_arg:
        name = argument.name
        if name in variables:
            low = -1.0 if name == "var" else 2.0 if name == "ms" else 0.25
            inputs[name] = np.round(random.uniform(low, low + 1.5, (4, 2)) * 16) / 16
        elif name in ("grad", "delta"):
            inputs[name] = np.round(random.uniform(-1, 1, (len(rows), 2)) * 16) / 16
        elif name == "indices":
            inputs[name] = np.array(rows)
        elif name == "global_step":
            inputs[name] = np.array(3)
        else:
            value = _NUMBERS[name]
            inputs[name] = np.array(0.0 if name == "l1" and variant else value)
            if name == "lr_power" and variant:
                inputs[name] = np.array(-0.25)
    return inputs, variables


def main() -> None:
    tf = importlib.import_module("tensorflow")
    ops = importlib.import_module("tensorflow.python.framework.op_def_registry").get_registered_ops()
    random = np.random.RandomState(5)
    names = sorted(
        n for n in ops if n.startswith(("Apply", "SparseApply", "ResourceApply", "ResourceSparseApply"))
    )
    lines = []
    for name in names:
        definition = ops[name]
        for variant in (0, 1):
            values, variables = _inputs(definition, random, variant)
            attrs = {
                a.name: bool(variant) if a.name == "use_nesterov" else not variant
                for a in definition.attr
                if a.name in ("use_nesterov", "update_slots")
            }
            resource = name.startswith("Resource")
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                arguments: dict[str, Any] = dict(attrs)
                held = []
                for key, value in values.items():
                    dtype = {"indices": tf.int32, "global_step": tf.int64}.get(key, tf.float32)
                    if key in variables:
                        variable = tf.compat.v1.Variable(value, dtype=dtype, use_resource=resource)
                        held.append(variable)
                        arguments[key] = variable.handle if resource else variable._variable
                    else:
                        arguments[key] = tf.constant(value, dtype)
                step = getattr(tf.raw_ops, name)(**arguments)
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(step if resource else step.op)
                after = [v.tolist() for v in session.run(held)]
            record = {
                "op": name,
                "attrs": attrs,
                "variables": variables,
                "inputs": {k: v.tolist() for k, v in values.items()},
                "after": after,
            }
            lines.append(json.dumps(record, separators=(",", ":")))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer_records.jsonl")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases recorded")


if __name__ == "__main__":
    main()
