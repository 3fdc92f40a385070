"""Write a copy of digits.pb with one wrong weight, and one that pads a convolution in another way."""

import numpy as np

import flowengine as fe

for name in ("weight", "padding"):
    definition = fe.Graph.load("digits.pb").to_graph_def()
    nodes = {node.name: node for node in definition.node}
    if name == "weight":
        tensor = nodes["weights/conv2"].attr["value"].tensor
        values = np.frombuffer(tensor.tensor_content, np.float32).copy()
        values[100] *= 1.1
        tensor.tensor_content = values.tobytes()
    else:
        nodes["MaxPool"].attr["ksize"].list.i[1] = 3
    fe.Graph.from_graph_def(definition).save(f"digits_{name}.pb")
