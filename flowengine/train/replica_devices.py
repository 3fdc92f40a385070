"""Devices of replicas: variables on the tasks of a parameter server, everything else on a worker.

The rules are those of TensorFlow 1's `train.replica_device_setter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName

if TYPE_CHECKING:
    from flowengine.cluster.spec import ClusterSpec
    from flowengine.core.dtypes import DType
    from flowengine.core.shapes import TensorShape
    from flowengine.graphs.tensor import Operation

#: The ops that a parameter server holds: variables, and tables that change.
PARAMETER_OPS: Final = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
)


class RoundRobinStrategy:
    """A strategy that gives parameters to the tasks in turn.

    num_tasks   the number of tasks, at least 1; InvalidArgumentError for less

    >>> strategy = fe.train.RoundRobinStrategy(2)
    >>> weights = fe.Graph().placeholder("float32", [10]).op
    >>> [strategy(weights) for _ in range(3)]
    [0, 1, 0]
    """

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = _positive(num_tasks)
        self._next = 0

    def __call__(self, op: Operation) -> int:
        """Return the number of the task for a parameter."""
        task = self._next
        self._next = (task + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """A strategy that gives each parameter to the task with the least load so far.

    num_tasks   the number of tasks, at least 1
    load        returns the load of an operation, at least 0: `byte_size_load`, or a function of the caller's

    Raises InvalidArgumentError for other numbers of tasks, and if the load of an operation is negative.

    >>> graph, strategy = fe.Graph(), fe.train.GreedyLoadBalancingStrategy(2, fe.train.byte_size_load)
    >>> [strategy(graph.placeholder("float32", [size]).op) for size in (100, 10, 10, 10)]
    [0, 1, 1, 1]
    """

    def __init__(self, num_tasks: int, load: Callable[[Operation], float]) -> None:
        self._loads = [0.0] * _positive(num_tasks)
        self._load = load

    def __call__(self, op: Operation) -> int:
        """Return the number of the task for a parameter."""
        load = float(self._load(op))
        if not load >= 0:
            raise InvalidArgumentError(f"the load of '{op.name}' is {load}: it must be at least 0")
        task = self._loads.index(min(self._loads))
        self._loads[task] += load
        return task


def byte_size_load(op: Operation) -> int:
    """Return the bytes of a variable's value, or of an operation's first output.

    TensorFlow's `byte_size_load_fn` counts the handle of a resource variable, this its value. Strings and
    handles count as one byte each. Raises InvalidArgumentError if the shape is not fully known.

    >>> graph = fe.Graph()
    >>> fe.train.byte_size_load(graph.variable(fe.zeros([10, 4], graph=graph), name="w").op)
    160
    """
    attrs = op.node.attrs
    if "shape" in attrs and "dtype" in attrs:
        shape, dtype = cast("TensorShape", attrs["shape"]), cast("DType", attrs["dtype"])
    else:
        shape, dtype = op.outputs[0].shape, op.outputs[0].dtype.base
    elements = shape.num_elements()
    if elements is None:
        raise InvalidArgumentError(f"the size of '{op.name}' is unknown: its shape is {shape}")
    return elements * max(dtype.size, 1)


def replica_device_setter(
    *,
    cluster: ClusterSpec | Mapping[str, Any] | None = None,
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    ps_ops: Iterable[str] | None = None,
    ps_strategy: Callable[[Operation], int] | None = None,
) -> Callable[[Operation], str] | None:
    """Return a function for `graph.device` that puts parameters on servers, and the rest on a worker.

    cluster         counts the tasks of `ps_device`'s job, in place of `ps_tasks`
    ps_tasks        the number of parameter servers
    ps_device       the device of parameters; their task is added if it names a job
    worker_device   the device of all else, such as "/job:worker/task:3"; "" to ask for none
    ps_ops          the ops that are parameters; None for variables and mutable tables
    ps_strategy     returns the task of a parameter; None for `RoundRobinStrategy`

    A device that an inner scope asks for counts, and these fill what it leaves open. None, for no device
    function, is returned if there is no parameter server. Raises InvalidArgumentError for a device that
    cannot be read, and for a cluster without the job.

    >>> graph = fe.Graph()
    >>> with graph.device(fe.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")):
    ...     v, w = graph.variable(1.0, name="v"), graph.variable(2.0, name="w")
    ...     total = fe.add(v, w)
    >>> v.op.device, w.op.device, total.op.device
    ('/job:ps/task:0', '/job:ps/task:1', '/job:worker/task:1')
    """
    server = DeviceName.parse(ps_device)
    worker = DeviceName.parse(worker_device)
    if cluster is not None:
        jobs: Any = getattr(cluster, "jobs", cluster)
        if server.job not in jobs:
            raise InvalidArgumentError(f"the cluster has no job {server.job!r}, but {[*jobs]}")
        ps_tasks = len(jobs[server.job])
    if ps_tasks == 0:
        return None
    parameters = frozenset(PARAMETER_OPS if ps_ops is None else ps_ops)
    strategy = RoundRobinStrategy(ps_tasks) if ps_strategy is None else ps_strategy

    def device(op: Operation) -> str:
        asked = DeviceName.parse(op.device)
        if op.type not in parameters:
            return str(asked.merge_with(worker))
        chosen = server
        if server.job is not None and asked.job in (None, server.job):
            chosen = DeviceName(server.job, server.replica, strategy(op), server.type, server.index)
        return str(asked.merge_with(chosen))

    return device


def _positive(num_tasks: int) -> int:
    if num_tasks < 1:
        raise InvalidArgumentError(f"num_tasks={num_tasks} must be at least 1")
    return num_tasks


__all__ = ["GreedyLoadBalancingStrategy", "RoundRobinStrategy", "byte_size_load", "replica_device_setter"]
