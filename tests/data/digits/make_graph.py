"""Write digits.pb with TensorFlow 1.15 (Python 3.7): a small classifier of 8 x 8 digits and its training.

    python make_graph.py

| node | what it is |
|---|---|
| `images` | fed: float32 (N, 8, 8, 1), 0 to 16; for training the whole training set |
| `labels` | fed: int32 (N,) |
| `init` | sets the weights, by arithmetic noise, the same on every machine; the step counter to 0 |
| `train` | one step of momentum descent on a batch of 100 that the step counter picks from what is fed |
| `loss` | mean cross entropy of that batch, before the step |
| `scores` | probabilities of the ten classes, (N, 10) |
| `accuracy` | the share of `images` whose highest score is at `labels` |
| `weights/*` | the trained values: fetch them to keep, feed them to use |
"""

from pathlib import Path
from typing import Any, Dict, List, Tuple

import tensorflow

HERE = Path(__file__).parent
BATCH = 100

tf = tensorflow.compat.v1
_seeds = iter(range(1, 100))


def noise(shape: List[int], limit: float) -> Any:
    """Numbers spread evenly over -limit to limit, from integer arithmetic only."""
    count = 1
    for size in shape:
        count *= size
    index = tf.range(count, dtype=tf.int64) + 7919 * next(_seeds)
    mixed = tf.floormod(index * 1103515245 + 12345, 2147483647)
    mixed = tf.floormod(mixed * 69069 + 5, 2147483647)
    unit = tf.cast(tf.floormod(mixed, 65536), tf.float32) / 65536.0
    return tf.reshape((unit * 2.0 - 1.0) * limit, shape)


def weight(name: str, shape: List[int], fan_in: float) -> Tuple[Any, Any]:
    """(variable, the tensor that the network reads and that can be fed instead)."""
    limit = (6.0 / fan_in) ** 0.5
    with tf.name_scope("initial/"):
        initial = noise(shape, limit) if fan_in < 1e6 else tf.zeros(shape)
    variable = tf.Variable(initial, name="variables/" + name)
    return variable, tf.identity(variable, name="weights/" + name)


def network(images: Any, weights: Dict[str, Any]) -> Any:
    """Logits (N, 10) of images (N, 8, 8, 1)."""
    x = images / 16.0
    for layer in ("conv1", "conv2"):
        x = tf.nn.conv2d(x, weights[layer], strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.relu(tf.nn.bias_add(x, weights[layer + "_bias"]))
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME")
    x = tf.reshape(x, [-1, 2 * 2 * 32])
    x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights["dense1"]), weights["dense1_bias"]))
    return tf.nn.bias_add(tf.matmul(x, weights["dense2"]), weights["dense2_bias"])


def build() -> None:
    images = tf.placeholder(tf.float32, [None, 8, 8, 1], name="images")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    shapes = {
        "conv1": ([3, 3, 1, 16], 9),
        "conv1_bias": ([16], 1e9),
        "conv2": ([3, 3, 16, 32], 144),
        "conv2_bias": ([32], 1e9),
        "dense1": ([128, 64], 128),
        "dense1_bias": ([64], 1e9),
        "dense2": ([64, 10], 64),
        "dense2_bias": ([10], 1e9),
    }
    variables, weights = [], {}
    for name, (shape, fan_in) in shapes.items():
        variable, weights[name] = weight(name, shape, fan_in)
        variables.append(variable)

    counter = tf.Variable(0, trainable=False, name="variables/step")
    with tf.name_scope("batch"):
        # A stride that shares no factor with the number of rows walks through all of them.
        rows = tf.shape(images)[0]
        picked = tf.floormod((tf.range(BATCH) + tf.identity(counter) * BATCH) * 997, rows)
        batch, batch_labels = tf.gather(images, picked), tf.gather(labels, picked)
    with tf.name_scope("training"):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch_labels, logits=network(batch, weights)
        )
    loss = tf.reduce_mean(losses, name="loss")
    optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
    optimizer.minimize(loss, global_step=counter, var_list=variables, name="train")

    logits = network(images, weights)
    tf.exp(tf.nn.log_softmax(logits), name="scores")
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
    tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
    tf.group(*[each.initializer for each in tf.global_variables()], name="init")


if __name__ == "__main__":
    graph = tf.Graph()
    with graph.as_default():
        build()
    (HERE / "digits.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
