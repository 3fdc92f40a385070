"""Figure 1 of the white paper: a cost is fetched while its input is fed.

Abadi and others, TensorFlow: large-scale machine learning on heterogeneous distributed systems, 2015.
"""

import numpy as np

import flowengine as fe

graph = fe.Graph()
b = graph.variable(fe.zeros([100], graph=graph))  # 100-d vector, init to zeroes
W = graph.variable(fe.random_uniform([784, 100], -1, 1, graph=graph))  # 784x100 matrix w/rnd vals
x = graph.placeholder("float32", [1, 784], name="x")  # Placeholder for input
relu = fe.nn.relu(fe.matmul(x, W) + b)  # Relu(xW+b)
C = fe.reduce_mean(relu)  # Cost computed as a function of Relu

with fe.blocking.Session(graph) as s:  # Starts the event loop
    s.initialize()
    for step in range(10):
        image = np.random.random_sample([1, 784])  # Create 784-d vector for input
        print(step, s.run(C, feed_dict={x: image}))  # Fetch cost, feeding x=image
