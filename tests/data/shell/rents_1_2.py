"""A linear model of rents in training: python rents_1_2.py FOLDER, with TensorFlow 1.2 on Python 3.6.

`docs/examples/rents_1_2` is what it has written with TensorFlow 1.2.1: a MetaGraphDef and a checkpoint after
50 steps. The graph is trained with momentum, so a checkpoint has slots and a step besides the weights.
"""

import sys

import tensorflow as tf

SIZES = [0.525, 0.88, 0.312, 0.64]
ROOMS = [2.0, 3.0, 1.0, 2.0]
RENTS = [0.89, 1.11, 0.92, 1.25]
STEPS = 50


def main(folder: str) -> None:
    tf.set_random_seed(1)
    size = tf.placeholder(tf.float32, [None], name="size")
    rooms = tf.placeholder(tf.float32, [None], name="rooms")
    rent = tf.placeholder(tf.float32, [None], name="rent")
    weights = tf.get_variable("weights", [2, 1], initializer=tf.truncated_normal_initializer(stddev=0.1))
    bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
    features = tf.stack([size, rooms / 5], axis=1)
    predicted = tf.add(tf.squeeze(tf.matmul(features, weights), [1]), bias, name="predicted")
    loss = tf.reduce_mean(tf.square(predicted - rent), name="loss")
    step = tf.train.create_global_step()
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step, name="train")
    tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train, {size: SIZES, rooms: ROOMS, rent: RENTS})
        saver.save(session, folder + "/model.ckpt", global_step=step)


if __name__ == "__main__":
    main(sys.argv[1])
