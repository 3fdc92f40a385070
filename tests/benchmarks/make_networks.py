"""Makes full-size networks as GraphDefs, with TensorFlow 1.15: run by `networks.py` under that Python.

    PYTHON tests/benchmarks/make_networks.py FOLDER NAME...

AlexNet (one tower), Overfeat (fast), VGG-A and GoogLeNet as training graphs at batch 8: loss, gradients of
all weights, a step of gradient descent. Inception-v3 as inference at batch 1 and 8. The layers are those of
the public convnet benchmarks; weights begin as noise of the right size, images are a variable, so that a step
feeds nothing. Each makes FOLDER/NAME.pb and FOLDER/NAME.json: what to run first and what to time.

Uses nothing of this project and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np

BATCH = 8
CLASSES = 1000


class Net:
    """Layers after one another; every weight is a variable, initialized in the graph."""

    def __init__(self, tf: Any, batch: int, size: int) -> None:
        self.tf = tf
        self.count = 0
        random = np.random.RandomState(0)
        images = random.rand(1, size, size, 3).astype(np.float32)
        self.images = tf.Variable(
            tf.tile(tf.constant(images), [batch, 1, 1, 1]), name="images", trainable=False
        )

    def variable(self, shape: list[int], scale: float) -> Any:
        self.count += 1
        # Sines of a range: the same numbers in every engine, without a random generator.
        size = int(np.prod(shape))
        noise = self.tf.sin(self.tf.cast(self.tf.range(size), self.tf.float32) * 12.9898 + self.count)
        value = self.tf.reshape(noise * scale, shape)
        return self.tf.Variable(value, name=f"weights{self.count}")

    def conv(
        self, x: Any, outputs: int, window: Any, stride: int = 1, padding: str = "SAME", norm: bool = False
    ) -> Any:
        tf = self.tf
        high, wide = window if isinstance(window, tuple) else (window, window)
        inputs = int(x.shape[3])
        filters = self.variable([high, wide, inputs, outputs], (4.0 / (high * wide * inputs)) ** 0.5)
        y = tf.nn.conv2d(x, filters, [1, stride, stride, 1], padding)
        if norm:
            offset = self.variable([outputs], 0.1)
            mean, variance = self.variable([outputs], 0.1), tf.Variable(tf.ones([outputs]))
            scale = tf.Variable(tf.ones([outputs]))
            y = tf.nn.fused_batch_norm(y, scale, offset, mean, variance, epsilon=1e-3, is_training=False)[0]
        else:
            y = tf.nn.bias_add(y, self.variable([outputs], 0.1))
        return tf.nn.relu(y)

    def pool(self, x: Any, window: int = 2, stride: int = 2, padding: str = "VALID") -> Any:
        return self.tf.nn.max_pool(x, [1, window, window, 1], [1, stride, stride, 1], padding)

    def mean(self, x: Any, window: int, stride: int = 1, padding: str = "VALID") -> Any:
        return self.tf.nn.avg_pool(x, [1, window, window, 1], [1, stride, stride, 1], padding)

    def dense(self, x: Any, outputs: int, relu: bool = True) -> Any:
        tf = self.tf
        if len(x.shape) > 2:
            x = tf.reshape(x, [int(x.shape[0]), -1])
        inputs = int(x.shape[1])
        y = tf.matmul(x, self.variable([inputs, outputs], (2.0 / inputs) ** 0.5))
        y = tf.nn.bias_add(y, self.variable([outputs], 0.1))
        return tf.nn.relu(y) if relu else y

    def join(self, *parts: Any) -> Any:
        return self.tf.concat(list(parts), 3)


def alexnet(net: Net) -> Any:
    x = net.pool(net.conv(net.images, 64, 11, 4, "VALID"), 3, 2)
    x = net.pool(net.conv(x, 192, 5), 3, 2)
    for outputs in (384, 256, 256):
        x = net.conv(x, outputs, 3)
    x = net.dense(net.dense(net.pool(x, 3, 2), 4096), 4096)
    return net.dense(x, CLASSES, relu=False)


def overfeat(net: Net) -> Any:
    x = net.pool(net.conv(net.images, 96, 11, 4, "VALID"))
    x = net.pool(net.conv(x, 256, 5, 1, "VALID"))
    for outputs in (512, 1024, 1024):
        x = net.conv(x, outputs, 3)
    x = net.dense(net.dense(net.pool(x), 3072), 4096)
    return net.dense(x, CLASSES, relu=False)


def vgg_a(net: Net) -> Any:
    x = net.images
    for outputs, layers in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(layers):
            x = net.conv(x, outputs, 3)
        x = net.pool(x)
    x = net.dense(net.dense(x, 4096), 4096)
    return net.dense(x, CLASSES, relu=False)


def googlenet(net: Net) -> Any:
    def module(x: Any, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> Any:
        return net.join(
            net.conv(x, one, 1),
            net.conv(net.conv(x, three[0], 1), three[1], 3),
            net.conv(net.conv(x, five[0], 1), five[1], 5),
            net.conv(net.pool(x, 3, 1, "SAME"), pooled, 1),
        )

    x = net.pool(net.conv(net.images, 64, 7, 2), 3, 2, "SAME")
    x = net.pool(net.conv(net.conv(x, 64, 1), 192, 3), 3, 2, "SAME")
    x = module(x, 64, (96, 128), (16, 32), 32)
    x = net.pool(module(x, 128, (128, 192), (32, 96), 64), 3, 2, "SAME")
    x = module(x, 192, (96, 208), (16, 48), 64)
    x = module(x, 160, (112, 224), (24, 64), 64)
    x = module(x, 128, (128, 256), (24, 64), 64)
    x = module(x, 112, (144, 288), (32, 64), 64)
    x = net.pool(module(x, 256, (160, 320), (32, 128), 128), 3, 2, "SAME")
    x = module(x, 256, (160, 320), (32, 128), 128)
    x = module(x, 384, (192, 384), (48, 128), 128)
    return net.dense(net.mean(x, 7), CLASSES, relu=False)


def inception_v3(net: Net) -> Any:
    def conv(x: Any, outputs: int, window: Any, stride: int = 1, padding: str = "SAME") -> Any:
        return net.conv(x, outputs, window, stride, padding, norm=True)

    x = conv(net.images, 32, 3, 2, "VALID")
    x = conv(conv(x, 32, 3, 1, "VALID"), 64, 3)
    x = net.pool(x, 3, 2)
    x = net.pool(conv(conv(x, 80, 1, 1, "VALID"), 192, 3, 1, "VALID"), 3, 2)
    for pooled in (32, 64, 64):
        x = net.join(
            conv(x, 64, 1),
            conv(conv(x, 48, 1), 64, 5),
            conv(conv(conv(x, 64, 1), 96, 3), 96, 3),
            conv(net.mean(x, 3, 1, "SAME"), pooled, 1),
        )
    x = net.join(
        conv(x, 384, 3, 2, "VALID"),
        conv(conv(conv(x, 64, 1), 96, 3), 96, 3, 2, "VALID"),
        net.pool(x, 3, 2),
    )
    for inner in (128, 160, 160, 192):
        far = conv(conv(conv(x, inner, 1), inner, (7, 1)), inner, (1, 7))
        x = net.join(
            conv(x, 192, 1),
            conv(conv(conv(x, inner, 1), inner, (1, 7)), 192, (7, 1)),
            conv(conv(far, inner, (7, 1)), 192, (1, 7)),
            conv(net.mean(x, 3, 1, "SAME"), 192, 1),
        )
    x = net.join(
        conv(conv(x, 192, 1), 320, 3, 2, "VALID"),
        conv(conv(conv(conv(x, 192, 1), 192, (1, 7)), 192, (7, 1)), 192, 3, 2, "VALID"),
        net.pool(x, 3, 2),
    )
    for _ in range(2):
        near = conv(x, 384, 1)
        far = conv(conv(x, 448, 1), 384, 3)
        x = net.join(
            conv(x, 320, 1),
            conv(near, 384, (1, 3)),
            conv(near, 384, (3, 1)),
            conv(far, 384, (1, 3)),
            conv(far, 384, (3, 1)),
            conv(net.mean(x, 3, 1, "SAME"), 192, 1),
        )
    return net.dense(net.mean(x, 8), CLASSES, relu=False)


#: {name: (layers, size of an image, batch, whether it is trained)}
NETWORKS = {
    "alexnet": (alexnet, 224, BATCH, True),
    "overfeat": (overfeat, 231, BATCH, True),
    "vgg_a": (vgg_a, 224, BATCH, True),
    "googlenet": (googlenet, 224, BATCH, True),
    "inception_v3": (inception_v3, 299, 1, False),
    "inception_v3_batch": (inception_v3, 299, BATCH, False),
}


def frozen(tf: Any, graph: Any, output: str) -> Any:
    """The graph with its variables as constants, but for the images."""
    from tensorflow.python.framework.graph_util import convert_variables_to_constants

    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        return convert_variables_to_constants(
            session, graph.as_graph_def(), [output], variable_names_blacklist=["images"]
        )


def make(tf: Any, name: str, folder: str) -> None:
    layers, size, batch, trained = NETWORKS[name]
    with tf.Graph().as_default() as graph:
        net = Net(tf, batch, size)
        logits = layers(net)
        if trained:
            labels = tf.constant(np.arange(batch) * 37 % CLASSES, tf.int32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses, name="loss")
            # Steps so small that the loss neither vanishes nor explodes while it is timed.
            tf.train.GradientDescentOptimizer(1e-7).minimize(loss, name="train")
            targets = ["train"]
            definition = None
        else:
            tf.nn.softmax(logits, name="loss")
            targets = []
        init = tf.global_variables_initializer()
        if trained:
            definition = graph.as_graph_def()
            setup = [init.name]
        else:
            start = net.images.initializer.name
            setup = [start]
            definition = frozen(tf, graph, "loss")
            kept = {node.name for node in definition.node}
            wanted = {node.name: node for node in graph.as_graph_def().node}
            stack = [start]
            while stack:
                node = wanted[stack.pop()]
                if node.name not in kept:
                    kept.add(node.name)
                    definition.node.add().CopyFrom(node)
                stack += [i.split(":")[0].lstrip("^") for i in node.input if i.split(":")[0] not in kept]
    with open(os.path.join(folder, name + ".pb"), "wb") as file:
        file.write(definition.SerializeToString())
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump({"setup": setup, "fetches": ["loss:0"], "targets": targets}, file)


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    tf.disable_eager_execution()
    tf.disable_control_flow_v2()
    tf.logging.set_verbosity(tf.logging.ERROR)
    folder, names = sys.argv[1], sys.argv[2:]
    for name in names:
        make(tf, name, folder)


if __name__ == "__main__":
    main()
