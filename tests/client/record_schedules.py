"""Records schedules, clipping and averages of TensorFlow 1.15, into schedules_of_tensorflow.json.

python -m tests.client.record_schedules        # with the Python of a TensorFlow 1.15
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

STEPS = [0, 1, 7, 10, 25, 40, 100]
SCHEDULES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "exponential_decay": ([0.5, 10, 0.9], {}),
    "natural_exp_decay": ([0.5, 10, 0.9], {}),
    "inverse_time_decay": ([0.5, 10, 0.9], {}),
    "polynomial_decay": ([0.5, 30], {"end_learning_rate": 0.01, "power": 2.0}),
    "cosine_decay": ([0.5, 30], {"alpha": 0.1}),
    "cosine_decay_restarts": ([0.5, 10], {"t_mul": 2.0, "m_mul": 0.9, "alpha": 0.1}),
    "linear_cosine_decay": ([0.5, 30], {"num_periods": 2.5, "alpha": 0.1, "beta": 0.01}),
}
STAIRS = ("exponential_decay", "natural_exp_decay", "inverse_time_decay")
VALUES: Any = np.random.RandomState(3).uniform(-2, 2, [3, 4]).astype(np.float32)


def main() -> None:
    found: dict[str, Any] = {}
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])

        def note(name: str, schedule: Any) -> None:
            found[name] = [float(session.run(schedule, {step: at})) for at in STEPS]

        for name, (arguments, options) in SCHEDULES.items():
            note(name, getattr(tf.train, name)(arguments[0], step, *arguments[1:], **options))
        for name in STAIRS:
            arguments = SCHEDULES[name][0]
            note(
                name + " staircase",
                getattr(tf.train, name)(arguments[0], step, *arguments[1:], staircase=True),
            )
        note("polynomial_decay cycle", tf.train.polynomial_decay(0.5, step, 30, 0.01, cycle=True))
        note("piecewise_constant", tf.train.piecewise_constant(step, [7, 30], [0.5, 0.2, 0.1]))
        x = tf.constant(VALUES)
        clips = {
            "clip_by_value": tf.clip_by_value(x, -0.5, 1.0),
            "clip_by_norm": tf.clip_by_norm(x, 1.5),
            "clip_by_norm axes": tf.clip_by_norm(x, 1.5, axes=[1]),
            "clip_by_average_norm": tf.clip_by_average_norm(x, 0.1),
            "clip_by_global_norm": tf.clip_by_global_norm([x, 2.0 * x], 2.0)[0][1],
            "global_norm": tf.global_norm([x, None, 2.0 * x]),
        }
        for name, tensor in clips.items():
            found[name] = np.asarray(session.run(tensor), np.float64).ravel().tolist()
        count = tf.Variable(0, name="count")
        v = tf.Variable([1.0, 2.0], name="v")
        t = tf.identity(v * 3.0, name="t")
        plain = tf.train.ExponentialMovingAverage(0.9, num_updates=count)
        corrected = tf.train.ExponentialMovingAverage(0.9, zero_debias=True, name="corrected")
        updates = [plain.apply([v]), corrected.apply([t])]
        averages = [plain.average(v), corrected.average(t)]
        session.run(tf.global_variables_initializer())
        found["averages"] = []
        for _ in range(4):
            session.run([v.assign_add([1.0, -1.0]), count.assign_add(1)])
            session.run(updates)
            found["averages"].append([each.tolist() for each in session.run(averages)])
        found["names"] = sorted(each.op.name for each in tf.global_variables())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedules_of_tensorflow.json")
    with open(path, "w") as file:
        file.write(
            "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
        )


if __name__ == "__main__":
    main()
