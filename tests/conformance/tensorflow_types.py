"""Lists the types that TensorFlow's kernels for the CPU take, for `types_beside_tensorflow`.

    PYTHON-WITH-TENSORFLOW tests/conformance/tensorflow_types.py

Prints one JSON object: of each op its kernels, each as {type attribute: names of types}. An attribute that a
kernel does not name may have any type that the op allows; one that is not told may have any at all.

Uses nothing of this project and no syntax newer than Python 3.7, since TensorFlow 1.15 needs that.
"""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

#: What a kernel for "any device" registers.
DEVICES = ("CPU", "DEFAULT")


def registered() -> dict[str, Any]:
    """{op: its definition}"""
    registry: Any = importlib.import_module("tensorflow.python.framework.op_def_registry")
    if not hasattr(registry, "get"):
        importlib.import_module("tensorflow.python.framework.ops")
        return dict(registry.get_registered_ops())
    kernels: Any = importlib.import_module("tensorflow.python.framework.kernels")
    names = {kernel.op for kernel in kernels.get_all_registered_kernels().kernel}
    return {name: registry.get(name) for name in names if registry.get(name) is not None}


def listed() -> dict[str, list[dict[str, list[str]]]]:
    """{op: its kernels}; of types that a kernel names those that the op allows."""
    kernels: Any = importlib.import_module("tensorflow.python.framework.kernels")
    types: Any = importlib.import_module("tensorflow.core.framework.types_pb2")
    names = {number: name[3:].lower() for name, number in types.DataType.items()}
    ops = registered()
    found: dict[str, list[dict[str, list[str]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type not in DEVICES or kernel.label or kernel.op not in ops:
            continue
        named = {each.name: list(each.allowed_values.list.type) for each in kernel.constraint}
        taken: dict[str, list[str]] = {}
        for attr in ops[kernel.op].attr:
            allowed = list(attr.allowed_values.list.type)
            numbers = named.get(attr.name) or allowed
            if attr.type == "type" and numbers:
                taken[attr.name] = [names[n] for n in numbers if not allowed or n in allowed]
        found.setdefault(kernel.op, []).append(taken)
    return found


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    print(json.dumps(listed()))
