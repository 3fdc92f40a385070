"""The results that TensorFlow 1.15 gives for the programs of `control_programs`: run by its Python.

    PYTHON tests/gradients/tensorflow_programs.py FILE [SEED ...]

Writes {seed: what `play` returns, or the error as a text} as JSON. It cannot build the gradient of
some loops under control dependencies. Uses nothing of this project and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import control_programs  # type: ignore[import-not-found]
import tensorflow as tf

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.125),
    "momentum": lambda: tf.train.MomentumOptimizer(0.125, 0.5),
    # Its powers of beta are float32: these numbers are exact in it.
    "adam": lambda: tf.train.AdamOptimizer(0.125, 0.5, 0.75, 2.0**-20),
}


class Engine:
    """The calls of `control_programs` in TensorFlow 1.15, over the default graph."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}

    def placeholder(self, shape: Any, name: str) -> Any:
        return tf.placeholder(tf.float64, shape, name=name)

    def variable(self, value: Any, name: str) -> Any:
        made = tf.get_variable(name, initializer=tf.constant(value, tf.float64), use_resource=True)
        self.variables[name] = made
        return made

    def read(self, variable: Any) -> Any:
        return variable.read_value()

    def read_now(self, name: str) -> Any:
        return self.variables[name]

    def constant(self, value: Any) -> Any:
        return tf.constant(value, tf.float64)

    def binary(self, kind: str, x: Any, y: Any) -> Any:
        if kind == "+":
            return x * 0.5 + y
        if kind == "-":
            return x - y * 0.5
        if kind == "*":
            return x * y * 0.5
        if kind == "tanh":
            return tf.tanh(x + y)
        if kind == "rows":
            return tf.gather(x, [2, 0, 2]) * 0.5 - y
        return tf.where(tf.greater(x, 0.03), x * 0.5, y)

    def exceeds(self, x: Any, bound: float) -> Any:
        return tf.reduce_sum(x) > bound

    def total(self, x: Any) -> Any:
        return tf.reduce_sum(x)

    def cond(self, flag: Any, then: Any, other: Any) -> Any:
        return tf.cond(flag, then, other)

    def loop(self, most: int, goes_on: Any, body: Any, start: list[Any]) -> Any:
        def condition(i: Any, *carried: Any) -> Any:
            return tf.logical_and(i < most, goes_on(*carried)) if goes_on else i < most

        return tf.while_loop(
            condition, lambda i, *carried: [i + 1, *body(*carried)], [tf.constant(0), *start]
        )[1:]

    def after(self, tensors: Any) -> Any:
        return tf.control_dependencies(tensors)

    def beside(self, tensor: Any) -> Any:
        return tf.get_default_graph().colocate_with(tensor.op)

    def on(self, device: str) -> Any:
        return tf.device(device)

    def within(self, name: str) -> Any:
        return tf.name_scope(name)

    def gradients(self, y: Any, xs: list[Any]) -> list[Any]:
        return [None if each is None else tf.convert_to_tensor(each) for each in tf.gradients(y, xs)]

    def minimize(self, kind: str, loss: Any) -> Any:
        optimizer = OPTIMIZERS[kind]()
        # Gated gradients of a conditional's inputs wait for each other: one that is dead stops the others.
        found = optimizer.compute_gradients(loss, gate_gradients=optimizer.GATE_NONE)
        pairs = [(tf.convert_to_tensor(g), v) for g, v in found if g is not None]
        if not pairs:
            return None
        # Nothing else orders the reads of a variable and its update.
        with tf.control_dependencies([loss] + [g for g, _ in pairs]):
            return optimizer.apply_gradients(pairs)

    def session(self) -> Any:
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        self._session = tf.Session(config=config)
        self._session.run(tf.global_variables_initializer())
        return self._session.run

    def close(self) -> None:
        self._session.close()


def main() -> None:
    tf.logging.set_verbosity(tf.logging.FATAL)
    found = {}
    for seed in map(int, sys.argv[2:]):
        with tf.Graph().as_default():
            try:
                found[seed] = control_programs.play(Engine(), control_programs.draw(seed))
            except Exception as error:
                found[seed] = "{}: {}".format(type(error).__name__, str(error).split("\n")[0])
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
