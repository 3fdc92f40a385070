"""Record a step with TensorFlow 1.15 or 2: python record_tensorflow.py GRAPH FEEDS.npz OUT.npz FETCH..."""

import os
import sys

import numpy as np
import tensorflow as tf

tf = tf.compat.v1
path, feeds, out, *fetches = sys.argv[1:]
graph, config = tf.Graph(), tf.ConfigProto()
config.graph_options.rewrite_options.disable_meta_optimizer = True
config.graph_options.optimizer_options.opt_level = -1
with graph.as_default(), tf.Session(config=config) as session:
    if os.path.isdir(path):
        tf.saved_model.load(session, ["serve"], path)
    elif path.endswith(".meta"):
        tf.train.import_meta_graph(path).restore(session, path[: -len(".meta")])
    else:
        with open(path, "rb") as file:
            tf.import_graph_def(tf.GraphDef.FromString(file.read()), name="")
    find = graph.as_graph_element
    fed = {find(name if ":" in name else f"{name}:0"): value for name, value in np.load(feeds).items()}
    needed, waiting = {tensor.op for tensor in fed}, [find(name.split(":")[0]) for name in fetches]
    while waiting:  # all that the step runs
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [tensor.op for tensor in op.inputs] + op.control_inputs
    depths = dict.fromkeys(needed, 0)  # of conditionals and loops, inside of which TensorFlow fetches nothing
    for op in (each for each in graph.get_operations() if each in needed):
        sources = [tensor.op for tensor in op.inputs]
        types = {source.type for source in sources}
        opens = op.type == "Enter" or (op.type == "Switch" and "LoopCond" not in types)
        closes = op.type == "Exit" or (op.type == "Merge" and "NextIteration" not in types)
        before = (depths[each] for each in sources + op.control_inputs)
        depths[op] = max(before, default=0) + opens - closes
    wanted = [t for op in depths if depths[op] <= 0 for t in op.outputs if t.consumers() or not t.value_index]
    wanted = [each for each in wanted if each.dtype.base_dtype not in (tf.resource, tf.variant, tf.bfloat16)]
    np.savez(out, **session.run({each.name: each for each in wanted}, fed))
