"""Training around steps: checkpoints that survive crashes, and pipelines that run beside the steps.

Names are resolved when first used: using one part does not import the others.

>>> graph = fe.Graph()
>>> rows, = fe.train.range_input_producer(graph, 6, num_epochs=1, shuffle=False).dequeue()
>>> numbers, = fe.train.batch([rows], 2)
>>> async def main():
...     async with fe.Session(graph) as session:
...         async with fe.train.QueueRunners(session) as coordinator:
...             while not coordinator.should_stop():
...                 print(await session.run(numbers))
>>> trio.run(main)
[0 1]
[2 3]
[4 5]
>>> shuffled = fe.train.shuffle_batch([rows], 2, capacity=20, min_after_dequeue=4)
>>> joined = fe.train.batch_join([[rows], [rows]], 2)
>>> both = fe.train.shuffle_batch_join([[rows], [rows]], 2, capacity=20, min_after_dequeue=4)
>>> names = fe.train.string_input_producer(graph, ["a.txt", "b.txt"])
>>> image, label = fe.train.slice_input_producer([fe.ones([6, 3], graph=graph), fe.range(6, graph=graph)])
>>> lengths, padded = fe.train.bucket_by_sequence_length(label, [image], 2, [2, 4])
>>> limited = fe.train.limit_epochs(label, 3)
>>> len(fe.train.queue_runners_of(graph))
9
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from flowengine.core.public_names.missing import missing_name

if TYPE_CHECKING:
    from flowengine.checkpoint.state import CheckpointState, latest_checkpoint
    from flowengine.checkpoint.state import read_state as get_checkpoint_state
    from flowengine.train.bucketing import bucket, bucket_by_sequence_length
    from flowengine.train.coordinator import Coordinator
    from flowengine.train.fitting.fit import fit as fit
    from flowengine.train.fitting.history import TrainingHistory as TrainingHistory
    from flowengine.train.hooks.checkpoints import Checkpoints as Checkpoints
    from flowengine.train.hooks.hook import EarlyStopping as EarlyStopping
    from flowengine.train.hooks.hook import Evaluation as Evaluation
    from flowengine.train.hooks.hook import Hook as Hook
    from flowengine.train.hooks.hook import LoopState as LoopState
    from flowengine.train.hooks.hook import ProgressReports as ProgressReports
    from flowengine.train.hooks.profile import Profile as Profile
    from flowengine.train.hooks.step_guard import StepGuard as StepGuard
    from flowengine.train.hooks.stop_at_nan import StopAtNaN as StopAtNaN
    from flowengine.train.hooks.summaries import Summaries as Summaries
    from flowengine.train.inputs import batch, batch_join, shuffle_batch, shuffle_batch_join
    from flowengine.train.periodic import PeriodicSaves, save_every
    from flowengine.train.producers import (
        input_producer,
        limit_epochs,
        match_filenames_once,
        range_input_producer,
        slice_input_producer,
        string_input_producer,
    )
    from flowengine.train.queue_runners import (
        QueueRunner,
        QueueRunners,
        add_queue_runner,
        initialize_local_variables,
        queue_runners_of,
        start_queue_runners,
    )
    from flowengine.train.queues import GraphQueue
    from flowengine.train.recovery import RecoveredRun, Restart, run_with_recovery
    from flowengine.train.replica_devices import GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy
    from flowengine.train.replica_devices import RoundRobinStrategy as RoundRobinStrategy
    from flowengine.train.replica_devices import byte_size_load as byte_size_load
    from flowengine.train.replica_devices import replica_device_setter as replica_device_setter
    from flowengine.train.saver import Saver
    from flowengine.train.snapshot import Snapshot
    from flowengine.train.training_loop import LoopResult as LoopResult
    from flowengine.train.training_loop import loop as loop

#: {public name: module, and the name there after a colon where it is another}
_PUBLIC: Final[dict[str, str]] = {
    "CheckpointState": "flowengine.checkpoint.state",
    "Checkpoints": "flowengine.train.hooks.checkpoints",
    "Coordinator": "flowengine.train.coordinator",
    "EarlyStopping": "flowengine.train.hooks.hook",
    "Evaluation": "flowengine.train.hooks.hook",
    "GraphQueue": "flowengine.train.queues",
    "GreedyLoadBalancingStrategy": "flowengine.train.replica_devices",
    "Hook": "flowengine.train.hooks.hook",
    "LoopResult": "flowengine.train.training_loop",
    "LoopState": "flowengine.train.hooks.hook",
    "PeriodicSaves": "flowengine.train.periodic",
    "Profile": "flowengine.train.hooks.profile",
    "ProgressReports": "flowengine.train.hooks.hook",
    "QueueRunner": "flowengine.train.queue_runners",
    "QueueRunners": "flowengine.train.queue_runners",
    "RecoveredRun": "flowengine.train.recovery",
    "Restart": "flowengine.train.recovery",
    "RoundRobinStrategy": "flowengine.train.replica_devices",
    "Saver": "flowengine.train.saver",
    "Snapshot": "flowengine.train.snapshot",
    "StepGuard": "flowengine.train.hooks.step_guard",
    "StopAtNaN": "flowengine.train.hooks.stop_at_nan",
    "Summaries": "flowengine.train.hooks.summaries",
    "TrainingHistory": "flowengine.train.fitting.history",
    "add_queue_runner": "flowengine.train.queue_runners",
    "batch": "flowengine.train.inputs",
    "batch_join": "flowengine.train.inputs",
    "bucket": "flowengine.train.bucketing",
    "bucket_by_sequence_length": "flowengine.train.bucketing",
    "byte_size_load": "flowengine.train.replica_devices",
    "fit": "flowengine.train.fitting.fit",
    "get_checkpoint_state": "flowengine.checkpoint.state:read_state",
    "initialize_local_variables": "flowengine.train.queue_runners",
    "input_producer": "flowengine.train.producers",
    "latest_checkpoint": "flowengine.checkpoint.state",
    "limit_epochs": "flowengine.train.producers",
    "loop": "flowengine.train.training_loop",
    "match_filenames_once": "flowengine.train.producers",
    "queue_runners_of": "flowengine.train.queue_runners",
    "range_input_producer": "flowengine.train.producers",
    "replica_device_setter": "flowengine.train.replica_devices",
    "run_with_recovery": "flowengine.train.recovery",
    "save_every": "flowengine.train.periodic",
    "shuffle_batch": "flowengine.train.inputs",
    "shuffle_batch_join": "flowengine.train.inputs",
    "slice_input_producer": "flowengine.train.producers",
    "start_queue_runners": "flowengine.train.queue_runners",
    "string_input_producer": "flowengine.train.producers",
}

__all__ = [
    "CheckpointState",
    "Checkpoints",
    "Coordinator",
    "EarlyStopping",
    "Evaluation",
    "GraphQueue",
    "GreedyLoadBalancingStrategy",
    "Hook",
    "LoopResult",
    "LoopState",
    "PeriodicSaves",
    "Profile",
    "ProgressReports",
    "QueueRunner",
    "QueueRunners",
    "RecoveredRun",
    "Restart",
    "RoundRobinStrategy",
    "Saver",
    "Snapshot",
    "StepGuard",
    "StopAtNaN",
    "Summaries",
    "TrainingHistory",
    "add_queue_runner",
    "batch",
    "batch_join",
    "bucket",
    "bucket_by_sequence_length",
    "byte_size_load",
    "fit",
    "get_checkpoint_state",
    "initialize_local_variables",
    "input_producer",
    "latest_checkpoint",
    "limit_epochs",
    "loop",
    "match_filenames_once",
    "queue_runners_of",
    "range_input_producer",
    "replica_device_setter",
    "run_with_recovery",
    "save_every",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _PUBLIC:
            raise missing_name(__name__, name, __all__)
        module, _, there = _PUBLIC[name].partition(":")
        value = getattr(importlib.import_module(module), there or name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names only."""
    return sorted(__all__)
