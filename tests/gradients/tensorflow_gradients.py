"""The values that TensorFlow 1.15 computes on given graphs: run by its Python, a process for many jobs.

    PYTHON tests/gradients/tensorflow_gradients.py FOLDER

FOLDER/jobs.json holds a list of jobs, FOLDER/values.npz the arrays that they name:

    {"graph": file, "setup": [{"feeds": {tensor: array}, "targets": [nodes]}], "feeds": {tensor: array},
     "fetches": [tensors], "gradients": {"ys": [tensors], "xs": [tensors], "grad_ys": [arrays]} or absent}

The answers, those of the fetches and then of the gradients, go to FOLDER/answers.npz as JOB/PLACE, and what
is wrong with a job, or None, to FOLDER/errors.json. A gradient that is None has no answer; slices are made
dense.

Uses nothing of this project and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np


def answers_of(tf: Any, folder: str, job: Any, values: Any) -> list[Any]:
    definition = tf.GraphDef()
    with open(os.path.join(folder, job["graph"]), "rb") as file:
        definition.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        fetches = list(job["fetches"])
        asked = job.get("gradients")
        if asked is not None:
            ys, xs = ([graph.get_tensor_by_name(name) for name in asked[key]] for key in ("ys", "xs"))
            weights = [tf.constant(values[name]) for name in asked["grad_ys"]]
            fetches += [
                None if each is None else tf.convert_to_tensor(each)
                for each in tf.gradients(ys, xs, grad_ys=weights)
            ]
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with tf.Session(graph=graph, config=config) as session:
            for run in job["setup"]:
                session.run(run["targets"], {name: values[key] for name, key in run["feeds"].items()})
            present = [each for each in fetches if each is not None]
            feeds = {name: values[key] for name, key in job["feeds"].items()}
            found = iter(session.run(present, feeds))
        return [None if each is None else next(found) for each in fetches]


def main() -> None:
    import tensorflow as tf

    tf.logging.set_verbosity(tf.logging.FATAL)
    folder = sys.argv[1]
    with open(os.path.join(folder, "jobs.json")) as file:
        jobs = json.load(file)
    values = np.load(os.path.join(folder, "values.npz"), allow_pickle=True)
    answers, errors = {}, []
    for number, job in enumerate(jobs):
        error = None
        try:
            for place, answer in enumerate(answers_of(tf, folder, job, values)):
                if answer is not None:
                    answers[f"{number}/{place}"] = answer
        except Exception as caught:
            error = f"{type(caught).__name__}: {str(caught)[:300]}"
        errors.append(error)
    np.savez(os.path.join(folder, "answers.npz"), **answers)
    with open(os.path.join(folder, "errors.json"), "w") as file:
        json.dump(errors, file)


if __name__ == "__main__":
    main()
