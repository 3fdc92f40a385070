"""Saves and restores with TensorFlow's Saver, 1.15 or 2: the counterpart of `checkpoint_flowengine.py`.

Runs under another Python, so it uses nothing of this project and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    session: Any = None
    saver: Any = None
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if asked["what"] == "version":
            answer = "TensorFlow " + module.__version__
        elif asked["what"] == "turn":
            if session is None:
                saver = tf.train.import_meta_graph(os.path.join(asked["folder"], "model.meta"))
                session = tf.Session()
                session.run("init")
            prefix = os.path.join(asked["folder"], "theirs")
            started = time.perf_counter()
            saver.save(session, prefix, write_meta_graph=False)
            saved = time.perf_counter()
            saver.restore(session, prefix)
            answer = {"save": saved - started, "restore": time.perf_counter() - saved}
        elif asked["what"] == "resume":
            saver = tf.train.import_meta_graph(os.path.join(asked["folder"], "model.meta"))
            session = tf.Session()
            started = time.perf_counter()
            saver.restore(session, os.path.join(asked["folder"], "theirs"))
            answer = {"resume": time.perf_counter() - started}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
