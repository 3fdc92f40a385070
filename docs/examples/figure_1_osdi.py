"""Figure 1 of the OSDI paper: a classifier of images is described, and trained on batches.

Abadi and others, TensorFlow: a system for large-scale machine learning, OSDI 2016. The last line is not in
the paper.
"""

from digit_batches import BATCH_SIZE, NUM_STEPS, accuracy, batch

import flowengine as fe

# 1. Construct a graph representing the model.
graph = fe.Graph()
x = graph.placeholder("float32", [None, 64])  # Placeholder for input.
y = graph.placeholder("float32", [BATCH_SIZE, 10])  # Placeholder for labels.

W_1 = graph.variable(fe.random_uniform([64, 100], -0.3, 0.3, seed=5, graph=graph))  # 64x100 weight matrix.
b_1 = graph.variable(fe.zeros([100], graph=graph))  # 100-element bias vector.
layer_1 = fe.nn.relu(fe.matmul(x, W_1) + b_1)  # Output of hidden layer.

W_2 = graph.variable(fe.random_uniform([100, 10], -0.3, 0.3, seed=6, graph=graph))  # 100x10 weight matrix.
b_2 = graph.variable(fe.zeros([10], graph=graph))  # 10-element bias vector.
layer_2 = fe.matmul(layer_1, W_2) + b_2  # Output of linear layer.

# 2. Add nodes that represent the optimization algorithm.
loss = fe.nn.softmax_cross_entropy_with_logits(y, layer_2)
train_op = fe.optimizers.AdaGrad(0.1).minimize(loss)

# 3. Execute the graph on batches of input data.
with fe.blocking.Session(graph) as sess:  # Starts the event loop.
    sess.initialize()  # Randomly initialize weights.
    for step in range(NUM_STEPS):  # Train iteratively for NUM_STEPS.
        x_data, y_data = batch(step)  # Load one batch of input data.
        sess.run(train_op, {x: x_data, y: y_data})  # Perform one training step.
    print(f"accuracy = {accuracy(lambda images: sess.run(layer_2, {x: images})):.3f}")
