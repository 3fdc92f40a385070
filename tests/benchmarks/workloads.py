"""Workloads to time: graphs, their feeds and fetches, and the ratio to TensorFlow that we expect.

Each function says in its docstring what the work should cost, worked out on the back of an envelope from
what its parts cost: 0.3 us a NumPy operation on a few floats, 0.4-0.7 us an interpreted node, 6 us the
least that a `run` can cost in trio, against 170 us a `Session.run`, 0.26-0.5 us a node and 2.2-2.7 us a
loop iteration in TensorFlow.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.testing.control import while_loop


@dataclass(frozen=True)
class Run:
    feeds: Mapping[str, Any] = field(default_factory=dict)
    fetches: Sequence[str] = ()
    targets: Sequence[str] = ()


@dataclass(frozen=True)
class Workload:
    """A graph, the runs that prepare it, and the run that is timed `repeats` times a round.

    limit      the ratio (ours to TensorFlow's) that must not be exceeded now
    budget     the ratio that the design asks for in the end
    callable   time `make_callable` instead of `run`
    folder     where the files lie that the graph reads
    optimizer  whether TensorFlow may rewrite the graph, as it does by default
    """

    name: str
    graph: bytes
    run: Run
    setup: Sequence[Run] = ()
    repeats: int = 20
    limit: float | None = None
    budget: float | None = None
    callable: bool = False
    folder: Path | None = None
    optimizer: bool = True
    expectation: str = ""

    def write(self, folder: Path) -> None:
        """Write it for the engines' processes, which read plain files."""
        if self.folder is not None:
            shutil.copytree(self.folder, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        (folder / "workload.pb").write_bytes(self.graph)
        count = 0

        def store(value: Any) -> Any:
            nonlocal count
            if isinstance(value, dict):
                return value
            count += 1
            np.save(folder / f"feed{count}.npy", value, allow_pickle=False)
            return {"npy": f"feed{count}.npy"}

        def plain(run: Run) -> dict[str, Any]:
            feeds = {name: store(value) for name, value in run.feeds.items()}
            return {"feeds": feeds, "fetches": list(run.fetches), "targets": list(run.targets)}

        work = {
            "graph": "workload.pb",
            "setup": [plain(run) for run in self.setup],
            "run": plain(self.run),
            "callable": self.callable,
            "optimizer": self.optimizer,
        }
        (folder / "workload.json").write_text(json.dumps(work), encoding="utf-8")


Build = Callable[[fe.Graph], Mapping[str, Any]]
WORKLOADS: dict[str, Callable[[], Workload]] = {}


def workload(**settings: Any) -> Callable[[Build], Build]:
    """Register a function that builds a graph and returns `run` and what else the workload needs."""

    def register(build: Build) -> Build:
        def make() -> Workload:
            g = fe.Graph()
            made = build(g)
            data = g.to_graph_def().SerializeToString()
            expectation = " ".join((build.__doc__ or "").split())
            return Workload(name=build.__name__, graph=data, expectation=expectation, **settings, **made)

        WORKLOADS[build.__name__] = make
        return build

    return register


@workload(limit=1 / 10, budget=1 / 10, repeats=200)
def one_op_run(g: fe.Graph) -> Mapping[str, Any]:
    """6 us for the trio step and its checkpoint, some 5 us for feed, fetch and one item, where
    TensorFlow takes 170 us: 1/15 to 1/10."""
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    return {"run": Run({"x:0": np.float32(2)}, ["y:0"])}


@workload(limit=1 / 3, budget=1 / 3, repeats=200, callable=True)
def one_op_callable(g: fe.Graph) -> Mapping[str, Any]:
    """TensorFlow's own callable skips most of its Python and takes about 30 us; ours saves looking up the
    plan and takes about 9: 1/3."""
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    return {"run": Run({"x:0": np.float32(2)}, ["y:0"])}


@workload(limit=1.0, budget=1.0, repeats=20)
def chain_of_1000_ops(g: fe.Graph) -> Mapping[str, Any]:
    """1,000 calls of NumPy in a compiled region, each into the buffer of its operand, are 0.22 ms;
    TensorFlow needs 170 us and 1,000 times 0.3 us: 0.6. Tanh and Mul take turns, since TensorFlow's
    optimizer makes one op of a row of unary ones."""
    x = g.placeholder("float32", [4], name="x")
    y = x
    for _ in range(500):
        y = g.ops.Tanh(g.ops.Mul(y, x))
    g.ops.Identity(y, name="y")
    return {"run": Run({"x:0": np.linspace(-1, 1, 4, dtype=np.float32)}, ["y:0"])}


@workload(limit=1.0, budget=1.0, repeats=20, optimizer=False)
def chain_of_1000_tanh(g: fe.Graph) -> Mapping[str, Any]:
    """As above, but of one function: 0.18 ms, where TensorFlow needs 170 us and 1,000 times 0.3 us: 0.4. Its
    optimizer, which would make one op of the whole row, is off."""
    x = g.placeholder("float32", [4], name="x")
    for _ in range(1000):
        x = g.ops.Tanh(x)
    g.ops.Identity(x, name="y")
    return {"run": Run({"x:0": np.linspace(-1, 1, 4, dtype=np.float32)}, ["y:0"])}


@workload(limit=0.3, budget=0.3, repeats=20)
def chain_of_scalar_adds(g: fe.Graph) -> Mapping[str, Any]:
    """1,000 additions of NumPy scalars at 0.04 us, written as operators into compiled regions, and 12 us
    for the run, where TensorFlow takes 170 us and 0.3 us an addition: 0.12."""
    x = g.placeholder("float32", [], name="x")
    y = x
    for _ in range(1000):
        y = g.ops.Add(y, x)
    g.ops.Identity(y, name="y")
    return {"run": Run({"x:0": np.float32(0.5)}, ["y:0"])}


@workload(limit=1 / 2, budget=1 / 3, repeats=5)
def while_of_1000_iterations(g: fe.Graph) -> Mapping[str, Any]:
    """Ten nodes an iteration at 0.5 us make 5 to 7 us where TensorFlow takes 2.5: about 2.5 while
    interpreted; as Python's own loop over NumPy scalars 0.35 us: 1/7."""
    n = g.placeholder("int32", [], name="n")
    _, a = while_loop(
        g,
        lambda i, a, n: g.ops.Less(i, n),
        lambda i, a, n: [g.ops.Add(i, 1), g.ops.Tanh(a)],
        [g.constant(0), g.constant(0.5)],
        invariants=[n],
    )
    g.ops.Identity(a, name="y")
    return {"run": Run({"n:0": np.int32(1000)}, ["y:0"])}


@workload(budget=1 / 3, repeats=2)
def nested_while_of_100_times_100(g: fe.Graph) -> Mapping[str, Any]:
    """10,000 inner iterations of three operations at 0.35 us, and 100 outer ones: 3.5 ms, where TensorFlow
    takes 2.5 us an iteration and some more for each frame: 1/7."""
    n = g.placeholder("int32", [], name="n")

    def inner(i: Any, a: Any, n: Any) -> list[Any]:
        _, a = while_loop(
            g,
            lambda j, a, n: g.ops.Less(j, n),
            lambda j, a, n: [g.ops.Add(j, 1), g.ops.Tanh(a)],
            [g.constant(0), a],
            invariants=[n],
            name="inner",
        )
        return [g.ops.Add(i, 1), g.ops.Add(a, 0.5)]

    _, a = while_loop(
        g,
        lambda i, a, n: g.ops.Less(i, n),
        inner,
        [g.constant(0), g.constant(0.5)],
        invariants=[n],
        name="outer",
    )
    g.ops.Identity(a, name="y")
    return {"run": Run({"n:0": np.int32(100)}, ["y:0"])}


@workload(limit=1.0, budget=1.0, repeats=20)
def thousand_parallel_ops(g: fe.Graph) -> Mapping[str, Any]:
    """500 additions and as many tanh that do not wait for each other, summed up at the end: 1,000 calls of
    0.25 us and 500 additions of the sum, where TensorFlow hands out 1,000 nodes to its threads: 0.8."""
    x = g.placeholder("float32", [4], name="x")
    lanes = [g.ops.Tanh(g.ops.Add(x, float(i) / 500)) for i in range(500)]
    g.ops.AddN(lanes, name="y")
    return {"run": Run({"x:0": np.linspace(-1, 1, 4, dtype=np.float32)}, ["y:0"])}


@workload(limit=1.0, budget=0.7, repeats=20)
def perceptron_training_step(g: fe.Graph) -> Mapping[str, Any]:
    """Two products forward and three back over a batch of 100 (784-100-10) are 47 MFlop, 0.4 ms on one
    core in either engine; 30 nodes at 0.5 us are nothing against TensorFlow's 170 us a run: 0.7."""
    ops = g.ops
    rng = np.random.default_rng(0)
    x = g.placeholder("float32", [None, 784], name="x")
    labels = g.placeholder("float32", [None, 10], name="labels")
    shapes = {"w1": (784, 100), "b1": (100,), "w2": (100, 10), "b2": (10,)}
    variables = {k: ops.VariableV2(dtype="float32", shape=s, name=k) for k, s in shapes.items()}
    start = {k: (rng.normal(size=s) / 30).astype(np.float32) for k, s in shapes.items()}
    g.group(*(ops.Assign(variables[k], start[k]) for k in shapes), name="init")
    hidden = ops.Relu(ops.BiasAdd(ops.MatMul(x, variables["w1"]), variables["b1"]))
    logits = ops.BiasAdd(ops.MatMul(hidden, variables["w2"]), variables["b2"])
    loss, d_logits = ops.SoftmaxCrossEntropyWithLogits(logits, labels)
    ops.Mean(loss, [0], name="loss")
    d_hidden = ops.ReluGrad(ops.MatMul(d_logits, variables["w2"], transpose_b=True), hidden)
    gradients = {
        "w2": ops.MatMul(hidden, d_logits, transpose_a=True),
        "b2": ops.BiasAddGrad(d_logits),
        "w1": ops.MatMul(x, d_hidden, transpose_a=True),
        "b1": ops.BiasAddGrad(d_hidden),
    }
    rate = g.constant(1e-4)
    g.group(*(ops.ApplyGradientDescent(variables[k], rate, d) for k, d in gradients.items()), name="train")
    feeds = {
        "x:0": rng.random((100, 784), np.float32),
        "labels:0": np.eye(10, dtype=np.float32)[rng.integers(0, 10, 100)],
    }
    return {"run": Run(feeds, ["loss:0"], ["train"]), "setup": [Run(targets=["init"])]}


@workload(budget=1 / 5, repeats=100)
def queue_pass(g: fe.Graph) -> Mapping[str, Any]:
    """An Enqueue and the Dequeue after it, in one step: both finish without waiting, so no trio task is
    made; 20 us where TensorFlow takes 200: 1/10."""
    ops = g.ops
    queue = ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    put = ops.QueueEnqueueV2(queue, [g.placeholder("float32", [], name="x")])
    with g.control_dependencies([put]):
        (element,) = ops.QueueDequeueV2(queue, component_types=["float32"])
    ops.Identity(element, name="y")
    return {"run": Run({"x:0": np.float32(1)}, ["y:0"])}


@workload(repeats=3)
def products_of_1024(g: fe.Graph) -> Mapping[str, Any]:
    """Four independent products of 1024 x 1024, 2.1 GFlop each: BLAS against Eigen, each with all cores:
    0.7 to 1.5. Tells whether worker threads get in BLAS's way."""
    x = g.placeholder("float32", [1024, 1024], name="x")
    g.ops.AddN([g.ops.MatMul(g.ops.Mul(x, float(i)), x) for i in range(1, 5)], name="y")
    return {"run": Run({"x:0": np.random.default_rng(0).random((1024, 1024), np.float32)}, ["y:0"])}


def shared_folder() -> Path | None:
    named = os.environ.get("FLOWENGINE_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared"
    return folder if folder.is_dir() else None


def lanes() -> Workload | None:
    """36 lanes of 500 tanh(a + b): 36,000 nodes at 0.9 us are 32 ms a step, where TensorFlow 2.21 takes
    17; reading and planning 36,000 nodes at 60 us is 2 s, where TensorFlow takes 14: 1/5."""
    shared = shared_folder()
    path = None if shared is None else shared / "zoo" / "big" / "lanes_36074_nodes.pb"
    if path is None or not path.exists():
        return None
    run = Run({"x:0": np.linspace(-1, 1, 8, dtype=np.float32)}, ["y:0"])
    return Workload(
        "lanes",
        path.read_bytes(),
        run,
        repeats=2,
        limit=1.0,
        budget=1.0,
        expectation=" ".join((lanes.__doc__ or "").split()),
    )


#: Graphs of which most of a step is convolutions or products of large matrices: other benchmarks' business.
MOSTLY_LIBRARY: Final = frozenset(
    {
        "alexnet_train",
        "googlenet_infer",
        "googlenet_train",
        "mobilenet_seg_infer",
        "tp_speech_commands",
        "tp_ssdlite_mobilenet_v2_coco",
        "tp_xla_lstm_layer",
    }
)
#: What single graphs must keep to; the others of small kernels to `ZOO_LIMIT`, and all of them in the
#: geometric mean to `ZOO_MEAN_LIMIT`.
ZOO_LIMITS: Final = {
    "cond_in_while_grad": 1.0,
    "lstm_lm_full": 1.0,
    "mnist_mlp_fig1": 0.7,
    "nested_while_grad": 1.0,
    "tp_charrnn_lstm": 1.0,
    "tp_t2onnx_lstm": 1.0,
    "whitepaper_fig1": 0.7,
}
ZOO_LIMIT: Final = 1.3
ZOO_MEAN_LIMIT: Final = 0.8


def zoo() -> Iterator[Workload]:
    """Whole graphs with the run that each names as worth timing; half to twice TensorFlow's time where
    small nodes dominate, BLAS against Eigen where convolutions do."""
    shared = shared_folder()
    for path in sorted((shared / "zoo" / "open").glob("*/case.json")) if shared is not None else ():
        case = json.loads(path.read_text(encoding="utf-8"))
        timing = case.get("timing")
        if not timing:
            continue

        def recorded(index: int, folder: Path = path.parent, runs: Any = case["runs"]) -> Run:
            run = runs[index]
            feeds = {
                name: value if "bytes_b64" in value else np.load(folder / value["npy"])
                for name, value in run["feeds"].items()
            }
            return Run(feeds, run["fetches"], run.get("targets", ()))

        yield Workload(
            f"zoo/{case['id']}",
            (path.parent / case["graph"]).read_bytes(),
            recorded(timing["run"]),
            [recorded(index) for index in timing["setup"]],
            repeats=5,
            limit=None if case["id"] in MOSTLY_LIBRARY else ZOO_LIMITS.get(case["id"], ZOO_LIMIT),
            folder=path.parent,
            expectation=" ".join((zoo.__doc__ or "").split()),
        )
