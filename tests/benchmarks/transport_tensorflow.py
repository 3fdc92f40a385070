"""TensorFlow 1.15's road between two processes: RecvTensor over gRPC. Run by `bench_transport.py`.

For each line "BYTES REPETITIONS" on standard input it answers with the seconds of each run. A run fetches
nothing: it copies a variable of the other task to this one, by a graph with one edge between the two.
Needs a Python that has TensorFlow 1.15 and NumPy, and nothing of ours.
"""

import os
import subprocess
import sys
import time
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import socket

import tensorflow.compat.v1 as tf


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def serve(ports: Any, task: int) -> Any:
    """This process as one task of two."""
    spec = tf.train.ClusterSpec({"task": [f"127.0.0.1:{port}" for port in ports]})
    config = tf.ConfigProto(device_count={"GPU": 0})
    return tf.distribute.Server(spec, job_name="task", task_index=task, config=config)


def main() -> None:
    """Serve, start the other task, and measure what is asked for."""
    if len(sys.argv) > 1:
        running = serve(sys.argv[1:3], 1)
        sys.stdin.read()
        del running
        return
    ports = [free_port(), free_port()]
    other = subprocess.Popen(
        [sys.executable, __file__] + [str(port) for port in ports], stdin=subprocess.PIPE
    )
    server = serve(ports, 0)
    print("ready", flush=True)
    cases = {}
    for line in sys.stdin:
        size, repetitions = map(int, line.split())
        if size not in cases:
            graph = tf.Graph()
            with graph.as_default():
                with tf.device("/job:task/task:1/cpu:0"):
                    variable = tf.Variable(tf.ones([size], tf.uint8), use_resource=False, name=f"v{size}")
                with tf.device("/job:task/task:0/cpu:0"):
                    here = tf.identity(variable).op
                init = variable.initializer
            options = tf.ConfigProto()
            options.graph_options.rewrite_options.disable_meta_optimizer = True
            session = tf.Session(server.target, graph=graph, config=options)
            session.run(init)
            cases[size] = session.make_callable(here)
            cases[size]()
        run = cases[size]
        taken = []
        for _ in range(repetitions):
            begin = time.perf_counter()
            run()
            taken.append(time.perf_counter() - begin)
        print(*taken, flush=True)
    assert other.stdin is not None
    other.stdin.close()
    other.wait()
    # The servers have no way to stop: the process ends with them.
    os._exit(0)


if __name__ == "__main__":
    main()
