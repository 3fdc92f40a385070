"""Train a small convolutional net on handwritten digits, and keep the epoch that reads new ones best."""

from pathlib import Path

import numpy as np

import flowengine as fe

graph = fe.Graph()
graph.seed = 1
images = graph.placeholder("uint8", [None, 8, 8, 1], name="images")
labels = graph.placeholder("uint8", [None], name="labels")
training = graph.placeholder("bool", [], name="training")

digits = fe.cast(labels, "int32")
h = fe.layers.conv2d(fe.cast(images, "float32") / 16.0, 16, 3, padding="same", use_bias=False)
h = fe.nn.relu(fe.layers.batch_normalization(h, training=training, momentum=0.9))
h = fe.layers.flatten(fe.layers.max_pooling2d(h))
h = fe.layers.dropout(h, 0.3, training=training)
scores = fe.layers.dense(h, 10)
loss = fe.identity(fe.losses.sparse_softmax_cross_entropy(digits, scores), name="loss")
accuracy = fe.metrics.accuracy(digits, fe.argmax(scores, 1, output_type="int32"))

rate = graph.placeholder("float32", [], name="rate")
count = graph.variable(0, name="global_step", dtype="int64", trainable=False)
with graph.control_dependencies(graph.collection("update_ops")):
    step = fe.optimizers.Adam(rate).minimize(loss, global_step=count)


def decayed(epoch: int) -> float:
    """Return the learning rate of an epoch."""
    return 0.01 * 0.9**epoch


if __name__ == "__main__":
    data = np.load(Path(__file__).with_name("digits.npz"))
    with fe.blocking.Session(graph) as session:
        history = fe.blocking.fit(
            session,
            step,
            {images: data["train_images"], labels: data["train_labels"]},
            epochs=10,
            fetches={"loss": loss},
            metrics={"accuracy": accuracy},
            feeds={training: True, rate: decayed},
            validation={images: data["test_images"], labels: data["test_labels"]},
            validation_feeds={training: False},
            monitor="val_accuracy",
            best="highest",
            directory="run",
        )
    print(f"{max(history['val_accuracy']):.1%} of the digits held out are read right")
