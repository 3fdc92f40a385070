"""Records what TensorFlow 1.15's optimizers make of `optimizer_cases`, into optimizers_of_tensorflow.json.

python -m tests.client.record_optimizers        # with the Python of a TensorFlow 1.15
"""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from tests.client import optimizer_cases as cases


def optimizer(kind: str, arguments: dict[str, Any], step: Any) -> Any:
    if kind == "AdamWOptimizer":
        from tensorflow.contrib.opt import AdamWOptimizer

        return AdamWOptimizer(**arguments)
    if kind == "AdagradDAOptimizer":
        return tf.train.AdagradDAOptimizer(global_step=step, **arguments)
    return getattr(tf.train, kind)(**arguments)


def record(kind: str, arguments: dict[str, Any], sparse: bool) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        w = tf.Variable(cases.START, name="w", use_resource=True)
        if sparse:
            rows = tf.gather(w, cases.PICKED) - tf.gather(cases.TARGET, cases.PICKED)
            loss = tf.reduce_sum(tf.gather(cases.WEIGHT, cases.PICKED) * tf.square(rows))
        else:
            loss = tf.reduce_sum(cases.WEIGHT * tf.square(w - cases.TARGET))
        train = optimizer(kind, arguments, step).minimize(loss, global_step=step)
        session.run(tf.global_variables_initializer())
        seen = []
        for count in range(1, cases.STEPS + 1):
            session.run(train)
            if count in cases.SEEN:
                seen.append([float(f"{x:.8g}") for x in session.run(w).ravel()])
        others = {}
        for variable in tf.global_variables():
            if variable.op.name not in ("w", "global_step"):
                others[variable.op.name] = [float(f"{x:.8g}") for x in session.run(variable).ravel()]
        return {"seen": seen, "others": others, "train": train.name}


def main() -> None:
    found = {
        name: {kind: record(there, arguments, kind == "sparse") for kind in ("dense", "sparse")}
        for name, (_, there, _, arguments) in cases.CASES.items()
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers_of_tensorflow.json")
    with open(path, "w") as file:
        file.write(
            "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
        )


if __name__ == "__main__":
    main()
