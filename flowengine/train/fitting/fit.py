"""`fe.train.fit`: epochs over data, as Keras' `fit`, of a graph's own step.

    history = await fe.train.fit(
        session,
        train,
        {x: images, y: labels},
        epochs=10,
        fetches={"loss": loss},
        metrics={"accuracy": accuracy},
        feeds={training: True},
        validation={x: other_images, y: other_labels},
        validation_feeds={training: False},
        monitor="val_accuracy",
        best="highest",
        patience=3,
    )
    print(history["val_accuracy"], history.best_epoch)

In a script it is `fe.blocking.fit`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Literal

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.sessions.calls import takes_session
from flowengine.data import Dataset
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.planning.fetches import fed_port_of, node_of
from flowengine.session import Session
from flowengine.train.fitting.batches import BatchOptions, source_of
from flowengine.train.fitting.epochs import Epochs, FedBatches
from flowengine.train.fitting.history import TrainingHistory
from flowengine.train.fitting.keeping import KeepOptions
from flowengine.train.fitting.measures import Measures, targets_of, unfed_placeholders
from flowengine.train.progress.loop_progress import LoopProgress
from flowengine.train.training_loop import loop

#: As Keras has it.
_BATCH_SIZE: Final = 32
#: {name of the batches: the part of a message that names what needs their placeholders}
_USES: Final = {"data": "the training step needs", "validation": "the numbers of validation need"}


@takes_session(blocking="fe.blocking.fit", name="fe.train.fit")
async def fit(
    session: Session,
    step: Any,
    data: Any,
    *,
    inputs: Any = None,
    epochs: int = 1,
    batch_size: int | None = None,
    shuffle: bool | None = None,
    seed: int = 0,
    drop_last: bool = False,
    fetches: Any = None,
    metrics: Mapping[str, Any] | None = None,
    feeds: Mapping[Any, Any] | None = None,
    validation: Any = None,
    validation_feeds: Mapping[Any, Any] | None = None,
    monitor: str | None = None,
    best: Literal["lowest", "highest"] | None = None,
    patience: int | None = None,
    min_delta: float = 0.0,
    restore_best: bool | None = None,
    directory: str | os.PathLike[str] | None = None,
    hooks: Sequence[Any] = (),
    initialize: bool = True,
    allow_nan: bool = False,
    quiet: bool = False,
) -> TrainingHistory:
    """Run a training step over all of the data, `epochs` times, and return the numbers of each epoch.

    session        a `fe.Session` whose graph is trained
    step           the operations of a step: the one that `minimize` returns, or a list of them
    data           {placeholder or its name: array}, arrays of as many rows; a tuple of arrays; or a
                   `fe.data.Dataset`, each of whose elements is a batch
    inputs         the placeholders of a tuple's arrays, or of a dataset's components, in their order
    epochs         the number of epochs in all, those before a restart included
    batch_size     the rows of arrays in a step, 32 by default; the last batch of an epoch has the remaining
                   rows
    shuffle        whether each epoch takes the rows of arrays in another random order (the default), which
                   depends on `seed` and the epoch alone
    drop_last      whether a last batch with fewer rows is left out
    fetches        {name: scalar}, means over a batch such as a loss; a tensor alone is called "loss". The
                   number of an epoch is the mean over its rows
    metrics        {name: metric} of `fe.metrics`, which begin anew with each epoch
    feeds          {placeholder or name: value} that each step feeds beside the data; a function of the epoch,
                   which counts from 0, returns the value of that epoch, such as a learning rate
    validation     data in any of these forms: after each epoch it gives the same numbers, under their names
                   after "val_", without the training step; `validation_feeds` are its `feeds`
    monitor        name of the number by which an epoch is the best; by default the first of `fetches`, or its
                   number of validation if you give `validation`
    best           whether its "lowest" or "highest" is best; by default the lowest of `fetches`
    patience       end after so many epochs in which it has not become better by more than `min_delta`
    restore_best   whether all variables get the values of the best epoch at the end; by default if `patience`
                   is given. Without a directory each epoch that is the best so far is kept in a temporary one
    directory      the folder for the checkpoints of the last epoch and of the best one. A program that you
                   start again continues after the last epoch there, and ends with the same values. If another
                   program has saved the latest checkpoint, the first epoch begins with its values
    hooks          more hooks of the loop; they see the numbers of an epoch in `state.metrics`, where
                   "epoch_loss" is the mean of "loss"
    initialize     whether to initialize variables that have no value yet
    allow_nan      whether infinite numbers and NaN are allowed
    quiet          whether to show nothing. Otherwise standard error shows the progress, as for
                   `fe.train.loop`, and the table of the history at the end

    The steps are those of `fe.train.loop`: each runs `step`, fetches `fetches`, and updates `metrics`.
    Nothing else changes a variable.

    Cancelled, or ended by an error, it leaves the session usable, with the effects of the steps that were
    made, and the checkpoints of complete epochs. An epoch that a hook ends early is not in the history, and
    begins anew after a restart.

    Raises InvalidArgumentError before the first step for arrays of different lengths, data without a batch, a
    placeholder that nothing feeds, and arguments that do not fit together; NotFoundError for a placeholder
    that the graph does not have; InvalidArgumentError later for numbers that are not finite.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> w = graph.variable(0.0, name="w")
    >>> loss = fe.reduce_mean(fe.square(x - w))
    >>> step = fe.optimizers.SGD(0.5).minimize(loss)
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         data = {x: np.float32([3, 3, 3, 3])}
    ...         return await fe.train.fit(session, step, data, epochs=2, fetches={"loss": loss}, quiet=True)
    >>> history = trio.run(main)
    >>> history["loss"], history.steps
    ([9.0, 0.0], 2)
    """
    for name, count in (("epochs", epochs), ("batch_size", batch_size)):
        if count is not None and count < 1:
            raise InvalidArgumentError(f"{name}={count} must be at least 1")
    _check_dataset_options(data, validation, batch_size, shuffle, drop_last)
    graph, targets = session.graph, targets_of(step)
    measures = Measures(graph, _named(fetches), dict(metrics or {}))
    size = _BATCH_SIZE if batch_size is None else batch_size
    options = BatchOptions(size, drop_last, None if shuffle is False else seed)
    training = _pass(graph, data, inputs, options, feeds, "data", [*targets, *_wanted(measures)])
    checking = None
    if validation is not None:
        in_order = BatchOptions(size)
        checking = _pass(
            graph, validation, inputs, in_order, validation_feeds, "validation", _wanted(measures)
        )
    elif validation_feeds:
        raise InvalidArgumentError("validation_feeds= are given, and there is no validation= to feed them to")
    keeping = KeepOptions(monitor, best, patience, min_delta, restore_best, directory)
    epoch_best = keeping.best_epoch(measures, has_validation=checking is not None)
    with ExitStack() as stack:
        keeper = keeping.keeper(stack, epoch_best)
        every = Epochs(
            training,
            checking,
            measures,
            epochs=epochs,
            best=epoch_best,
            save=None if keeper is None else keeper.save,
            allow_nan=allow_nan,
            quiet=quiet,
        )
        added = [] if keeper is None else keeper.hooks(every)
        result = await loop(
            session,
            [*targets, *measures.updates],
            feeds=every,
            fetches=measures.fetches,
            hooks=[every, *hooks, *added],
            initialize=initialize,
            quiet=True,
        )
        history = every.history
        history.steps, history.reason = result.steps, result.reason
        if epoch_best is not None and epoch_best.epoch is not None:
            history.best_epoch = epoch_best.epoch
            if keeper is not None:
                path = keeper.path_of(epoch_best.step)
                history.best_checkpoint = None if directory is None else path
                if keeping.restores and epoch_best.step != result.steps:
                    await keeper.saver.restore(session, path)
    LoopProgress(quiet=quiet).say(str(history))
    return history


def _named(fetches: Any) -> dict[str, Any]:
    """The fetches by name; InvalidArgumentError for those without names."""
    if fetches is None:
        return {}
    if isinstance(fetches, Mapping):
        for name in fetches:
            if not isinstance(name, str):
                raise InvalidArgumentError(f"fetches= has {name!r} for a name: give {{'loss': loss}}")
        return dict(fetches)
    if isinstance(fetches, list | tuple):
        raise InvalidArgumentError("fetches= of an epoch need names: give {'loss': loss}")
    return {"loss": fetches}


def _wanted(measures: Measures) -> list[Any]:
    return [*measures.fetches.values(), *measures.updates]


def _pass(
    graph: NodeGraph,
    data: Any,
    inputs: Any,
    options: BatchOptions,
    feeds: Mapping[Any, Any] | None,
    what: str,
    wanted: Sequence[Any],
) -> FedBatches:
    """Batches and feeds under the names of tensors.

    wanted   the nodes that steps run with them. Raises InvalidArgumentError if they depend on a placeholder
             that neither the data nor `feeds` feed
    """
    batches = source_of(data, inputs, options, what)
    beside = "feeds" if what == "data" else f"{what}_feeds"
    batches.keys = [_tensor(graph, key, what) for key in batches.keys]
    constant = {_tensor(graph, key, f"{beside}="): value for key, value in (feeds or {}).items()}
    both = [name for name in batches.keys if name in constant or batches.keys.count(name) > 1]
    if both:
        raise InvalidArgumentError(f"'{both[0]}' is fed twice: by {what} and again, or by {beside}= too")
    fed = [name.rpartition(":")[0] for name in (*batches.keys, *constant)]
    missing = unfed_placeholders(graph, fed, [node_of(graph, each) for each in wanted])
    if missing:
        hint = f"{beside}={{'{missing[0]}': ...}}"
        raise InvalidArgumentError(
            f"nothing feeds the placeholder '{missing[0]}', which {_USES[what]}: give it a column of {what}, "
            f"or {hint} if it is the same in each step"
        )
    return FedBatches(batches, constant)


def _tensor(graph: NodeGraph, key: Any, what: str) -> str:
    """The name of the tensor that a key stands for."""
    try:
        port = fed_port_of(graph, key)
    except OpError as error:
        raise type(error)(f"{what}: {error.message}") from None
    return f"{port.node}:{port.slot}"


def _check_dataset_options(
    data: Any, validation: Any, batch_size: int | None, shuffle: bool | None, drop_last: bool
) -> None:
    if not isinstance(data, Dataset):
        return
    given = {"shuffle": bool(shuffle), "drop_last": drop_last}
    if validation is None or isinstance(validation, Dataset):
        given["batch_size"] = batch_size is not None
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgumentError(
                f"{name}= is for arrays, and the elements of a dataset are batches already: use "
                "dataset.shuffle(...).batch(...)"
            )


__all__ = ["fit"]
