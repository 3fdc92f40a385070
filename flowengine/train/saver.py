"""Saver: checkpoints of a session's variables, in the files that TensorFlow's Saver reads and writes.

A checkpoint is written while other steps go on, from the values that the variables had when `save` was
called. It appears as a whole or not at all, and the state file names it only then.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import trio

from flowengine.checkpoint import BundleWriter, V1Writer
from flowengine.checkpoint.files import DISK, FileLayer
from flowengine.checkpoint.state import STATE_NAME, exists
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.files.paths import path_text
from flowengine.core.sessions.calls import refuse_facade, takes_session
from flowengine.graphs.graph import Graph
from flowengine.graphs.saving import SaverNodes, add_saver_nodes
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.common.file_access import translated
from flowengine.resources.variable import Variable
from flowengine.session import Session
from flowengine.train.added_nodes import AddedNodes
from flowengine.train.boundary import at_boundary as _at_boundary
from flowengine.train.folder import CheckpointFolders
from flowengine.train.meta_graphs import GraphDescription, read_meta_graph
from flowengine.train.restoring import chosen, prefix_in, read_values
from flowengine.train.retention import Direction
from flowengine.train.saveables import Saveable, check_distinct, of_graph, of_list, variable_named
from flowengine.train.saver_nodes import resolve
from flowengine.train.snapshot import Snapshot, settled
from flowengine.train.variable_devices import home_of, homes_for, in_host_memory

_log: Final = logging.getLogger("flowengine.train")

#: As TensorFlow counts the formats.
_V2 = 2


class Saver:
    """Saves and restores variables, and keeps the newest checkpoints.

    var_list          None for every variable of the session's graph; variables by name, or as Tensors or
                      Operations; or {name in the checkpoint: variable}
    max_to_keep       the number of newest checkpoints to keep, 0 for all; older ones are removed
    keep_checkpoint_every_n_hours   the interval in hours at which one of the older ones is kept for ever
    keep_best, best   the number of checkpoints with the "lowest" or "highest" `metric` to keep as well
    sync              whether a checkpoint must have reached the disk before it counts; None for the session's
                      `Config.sync_checkpoints`
    relative_paths    whether the state file names checkpoints relative to their folder
    state_name        the name of the state file; `files` and `clock`, in seconds, are for tests

    Checkpoints saved at the same time by one saver are written one after the other. Raises
    InvalidArgumentError for invalid numbers.

    >>> graph = fe.Graph()
    >>> weights = graph.variable([1.0, 2.0], name="weights")
    >>> async def main():
    ...     saver = fe.train.Saver(max_to_keep=3)
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         print(await saver.save(session, "run/model.ckpt", global_step=100))
    ...         await session.run(weights.assign([5.0, 5.0]))
    ...         print(await saver.restore(session, "run"), await session.run(weights))
    ...         await saver.write(saver.snapshot(session), "run/final")
    ...         await saver.remove_leftovers("run/final")  # of processes that were killed
    ...         return saver.runs_nodes(session)
    >>> trio.run(main)
    run/model.ckpt-100
    ['weights'] [1. 2.]
    False
    """

    def __init__(
        self,
        var_list: Iterable[Any] | Mapping[str | bytes, Any] | None = None,
        *,
        max_to_keep: int = 5,
        keep_checkpoint_every_n_hours: float | None = None,
        keep_best: int = 0,
        best: Direction = "lowest",
        sync: bool | None = None,
        relative_paths: bool = True,
        state_name: str = STATE_NAME,
        files: FileLayer = DISK,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._given = var_list if var_list is None or isinstance(var_list, Mapping) else list(var_list)
        self._sync = sync
        self._nodes: SaverNodes | None = None
        self._added = AddedNodes(self._listed)
        self._make: type[BundleWriter] | type[V1Writer] = BundleWriter
        #: The graph that the saver's nodes were added to here.
        self._graph: Graph | None = None
        #: (graph, its version, the saveables that were found in it)
        self._resolved: tuple[NodeGraph, int, list[Saveable] | None] | None = None
        self._folders = CheckpointFolders(
            max_to_keep,
            keep_checkpoint_every_n_hours,
            keep_best,
            best,
            relative_paths=relative_paths,
            state_name=state_name,
            files=files,
            clock=clock,
        )
        #: Of the graph, for the MetaGraphDef beside each checkpoint.
        self.description = GraphDescription(self._folders.limits)
        self._turn = trio.Lock()

    @classmethod
    def from_meta_graph(cls, source: Any, **options: Any) -> Saver:
        """Return the saver of a MetaGraphDef.

        source    a `.meta` file's path, its bytes, or the message
        options   those of the constructor, over the values of the SaverDef

        It saves and restores what the SaverDef's nodes would, and writes the MetaGraphDef beside each
        checkpoint as TensorFlow does. Without a SaverDef it saves the variables that the collections list.
        Raises InvalidArgumentError if it is not a MetaGraphDef, NotFoundError for a missing file. See
        `flowengine.train.Saver.add_to`.
        """
        found = read_meta_graph(source)
        saver = cls(found.var_list, **(found.options | options))
        saver.description.content = found.content
        saver._nodes = found.nodes
        if found.nodes is not None and found.version != _V2:
            saver._make = V1Writer
        return saver

    @classmethod
    def of_nodes(cls, filename: str, save: str, restore: str, **options: Any) -> Saver:
        """Return the saver of a graph that has nodes for it, as TensorFlow's Saver adds them.

        filename   the tensor that takes the checkpoint's prefix, such as "save/Const:0"
        save       the tensor to fetch for saving, such as "save/control_dependency:0"
        restore    the node to run for restoring, such as "save/restore_all"
        options    those of the constructor, but for `var_list`

        >>> saver = fe.train.Saver.of_nodes("save/Const:0", "save/control_dependency:0", "save/restore_all")
        """
        saver = cls(None, **options)
        saver._nodes = SaverNodes(filename, save, restore)
        return saver

    def add_to(self, graph: Graph, name: str = "save") -> Saver:
        """Add nodes that save and restore these variables to a graph, and return this saver.

        From then on a MetaGraphDef with their SaverDef is written beside each checkpoint, with which
        TensorFlow, or `from_meta_graph` elsewhere, goes on. Variables made later are not saved.
        At a target a saver without nodes adds some by itself.

        >>> graph = fe.Graph()
        >>> weights = graph.variable([1.0, 2.0], name="weights")
        >>> saver = fe.train.Saver(max_to_keep=3).add_to(graph)
        >>> with fe.blocking.Session(graph) as session:
        ...     initialized = session.initialize()
        ...     prefix = session.call(saver.save, "run/model.ckpt")
        ...     fe.blocking.Saver.from_meta_graph("run/model.ckpt.meta").restore(session, prefix)
        ['weights']
        """
        self._nodes = add_saver_nodes(graph, self._listed(graph), name)
        self._graph = graph
        return self

    @takes_session()
    async def save(
        self,
        session: Session,
        path: str | os.PathLike[str],
        *,
        global_step: Any = None,
        metric: float | None = None,
        at_boundary: bool = False,
        write_meta_graph: bool = False,
    ) -> str:
        """Save under `path`, or `path-step`, and return that prefix once the checkpoint is complete.

        global_step   a number, or the variable (or its name) that counts the steps
        metric        the score of the model, for `keep_best`
        at_boundary   whether to wait until no step of the session that changes variables is running; by
                      default the values are those at the time of the call
        write_meta_graph   whether the MetaGraphDef of the session's graph is written beside it, as `.meta`:
                      `flowengine run`, TensorFlow, or `from_meta_graph` elsewhere, goes on with it. A saver
                      whose nodes are in the graph, or that was made from a MetaGraphDef, always writes it

        Other steps go on meanwhile; the checkpoint does not have their changes. Cancelled or failed, it
        leaves all files as they were. Raises FailedPreconditionError naming variables without a value, and
        errors of the file system as NotFoundError, PermissionDeniedError, UnknownError.
        """
        if self.runs_nodes(session):
            step = await self._step_by_running(session, global_step)
            make = self._meta_graph_of(session, is_wanted=write_meta_graph)
            return await self._save_by_running(session, self._prefix(path, step), metric, make)
        if at_boundary:
            taken = await _at_boundary(session, lambda: self.snapshot(session, global_step=global_step))
        else:
            await settled(lambda: self._variables(session))
            taken = self.snapshot(session, global_step=global_step)
        taken.meta_graph = self._meta_graph_of(session, is_wanted=write_meta_graph)
        return await self.write(taken, path, metric=metric, sync=self._syncs(session))

    def snapshot(self, session: Session, *, global_step: Any = None) -> Snapshot:
        """Return the variables' present values, for `write`, without copying or waiting.

        Called between two steps, it is consistent; a step that changes a variable later writes into a copy.
        Raises FailedPreconditionError naming variables that have no value or that a step is writing on
        another thread, InvalidArgumentError if the saver has to run nodes of the graph.
        """
        saveables = self._saveables(session)
        if saveables is None:
            raise InvalidArgumentError(
                "the saver's nodes do more than read variables, so they must be run: use `save`"
            )
        session.resources.bind_to_current_run()
        homes = [home_of(session, each) for each in saveables]
        taken = Snapshot.of(saveables, [None if home is None else home.variable for home in homes])
        devices = [None if home is None else home.device for home in homes]
        if any(device is not None for device in devices):
            taken.brought_by(lambda values: in_host_memory(session, values, devices))
        taken.step = self._step(session, global_step)
        taken.meta_graph = self._meta_graph_of(session)
        return taken

    async def write(
        self,
        snapshot: Snapshot,
        path: str | os.PathLike[str],
        *,
        metric: float | None = None,
        sync: bool = True,
    ) -> str:
        """Write a `snapshot` once; `path`, `metric`, result, errors and cancellation as for `save`.

        Values in the memory of devices are awaited first. `sync` counts if the saver does not say.
        """
        await snapshot.bring()
        prefix = self._prefix(path, snapshot.step)
        sync = sync if self._sync is None else self._sync

        def work() -> None:
            meta_graph = snapshot.meta_graph()
            self._folders.tidy(prefix)
            check = trio.from_thread.check_cancelled
            snapshot.write(prefix, self._make, sync=sync, files=self._folders.files, check=check)
            self._folders.commit(prefix, metric, meta_graph, sync=sync)

        async with self._turn:
            await _on_thread(work, prefix)
        return prefix

    async def _save_by_running(
        self, session: Session, prefix: str, metric: float | None, make: Callable[[], bytes | None]
    ) -> str:
        nodes = self._nodes or self._added.of(session.graph)
        meta_graph = await _on_thread(make, prefix)
        async with self._turn:
            written = await session.run(nodes.save, {nodes.filename: os.fsencode(prefix)})
            prefix = os.fsdecode(written) if isinstance(written, bytes) else prefix
            if not session.is_local and not await _on_thread(lambda: exists(prefix), prefix):
                raise FailedPreconditionError(
                    f"the tasks at the session's target have written {prefix}, but this process does not "
                    "find it: tasks and client must see the same directory under the same name"
                )
            sync = self._syncs(session)
            await _on_thread(lambda: self._folders.commit(prefix, metric, meta_graph, sync=sync), prefix)
        return prefix

    @takes_session()
    async def restore(
        self,
        session: Session,
        path: str | os.PathLike[str],
        *,
        names: Iterable[str] | None = None,
        strict: bool = True,
    ) -> list[str]:
        """Restore the variables from a checkpoint, and return the names of those that were restored.

        path     a checkpoint's prefix, or a folder: the latest one that its state file names, or the one of
                 a SavedModel
        names    only these, by name in the checkpoint or of the variable, or patterns such as "conv*"
        strict   whether a variable that the checkpoint does not have is an error; else it keeps its value

        It sets all at once, after it has read and checked everything: an error changes nothing. Raises
        NotFoundError for a missing checkpoint or name, InvalidArgumentError listing variables of another
        type or shape, DataLossError naming file and tensor where the checkpoint is damaged.
        """
        given = path_text(path, "Saver.restore")
        prefix = await _on_thread(lambda: prefix_in(given, self._folders.state_name), given)
        if self.runs_nodes(session):
            if names is not None or not strict:
                raise InvalidArgumentError(
                    "the saver's nodes do more than assign variables, so they must be run, which restores "
                    "everything: name no subset"
                )
            nodes = self._nodes or self._added.of(session.graph)
            await session.run((), {nodes.filename: os.fsencode(prefix)}, targets=[nodes.restore])
            await _on_thread(lambda: self._folders.recover(prefix), prefix)
            return []
        saveables = chosen(self._saveables(session) or (), names)
        session.resources.bind_to_current_run()
        values = await _on_thread(
            lambda: read_values(prefix, saveables, strict=strict, check=trio.from_thread.check_cancelled),
            prefix,
        )
        homes = homes_for(session, [each for each, _ in values])
        await settled(lambda: (home.variable for home in homes))
        for home, (_, value) in zip(homes, values, strict=True):
            home.adopt(value)
        await _on_thread(lambda: self._folders.recover(prefix), prefix)
        return [each.text for each, _ in values]

    async def remove_leftovers(self, path: str | os.PathLike[str]) -> None:
        """Remove unfinished files under this `path` that processes which no longer exist have left."""
        prefix = os.fspath(path)
        await _on_thread(lambda: self._folders.tidy(prefix, again=True), prefix)

    @property
    def files(self) -> FileLayer:
        """The layer that writes its files."""
        return self._folders.files

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes kept in the folder of the newest save or restore, the oldest first."""
        kept = self._folders.kept
        return [] if kept is None else [each.prefix for each in kept.kept]

    @property
    def best_checkpoint(self) -> str | None:
        """Of these, the one with the best metric."""
        kept = self._folders.kept
        ranked = [] if kept is None else kept.ranked()
        return ranked[0].prefix if ranked else None

    def names(self, session: Session) -> list[str]:
        """Return the names that it saves under; InvalidArgumentError if it must run nodes to know them."""
        saveables = self._saveables(session)
        if saveables is None and self._nodes is None:
            saveables = self._listed(session.graph)
        if saveables is None:
            raise InvalidArgumentError(
                "the names that this saver's nodes save are known only after they have run"
            )
        return [each.text for each in saveables]

    def runs_nodes(self, session: Session) -> bool:
        """Whether it runs nodes of the graph, rather than reads and sets the variables directly.

        At a target it runs nodes, and adds its own to the session's graph if it has none. Raises
        InvalidArgumentError if that is impossible, or if there is no variable to save.
        """
        return self._saveables(session) is None

    def _saveables(self, session: Session) -> list[Saveable] | None:
        """Return the variables to save; None if the nodes have to be run."""
        refuse_facade(session, "this method of fe.train.Saver", "use a fe.blocking.Saver, or `session.call`")
        if not session.is_local:
            if self._nodes is None:
                self._added.of(session.graph)
            return None
        if self._nodes is not None and not all(each.shares_host_memory for each in session.devices):
            return None  # a variable may be in memory that only steps reach
        graph = session.graph
        known = self._resolved
        if known is None or known[0] is not graph or known[1] != graph.version:
            known = self._resolved = graph, graph.version, self._find(graph)
        return known[2]

    def _find(self, graph: NodeGraph) -> list[Saveable] | None:
        if self._nodes is not None:
            return resolve(graph, self._nodes)
        return self._listed(graph)

    def _listed(self, graph: NodeGraph) -> list[Saveable]:
        """The variables that the saver was given, or all of a graph."""
        found = of_graph(graph) if self._given is None else of_list(graph, self._given)
        if not found:
            raise InvalidArgumentError("the session's graph has no variable to save: give var_list=")
        check_distinct(found)
        return found

    def _meta_graph_of(self, session: Session, *, is_wanted: bool = False) -> Callable[[], bytes | None]:
        """Return the function that makes the MetaGraphDef to write, on a thread; it returns None for none."""
        content, graph = self.description.content, self._graph
        if content is not None:
            return lambda: content
        if graph is not None:
            return self.description.maker(graph, self._nodes, ())
        graph = session.graph if is_wanted and isinstance(session.graph, Graph) else None
        if graph is None:
            return lambda: None
        nodes = self._nodes or (None if session.is_local else self._added.of(graph))
        make = self.description.maker(graph, nodes, () if nodes else self._listed(graph))

        def attempt() -> bytes | None:
            try:
                return make()
            except Exception:  # a graph may hold anything, and its values must be saved all the same
                _log.warning("a checkpoint is without its .meta: the graph cannot be written", exc_info=True)
                return None

        return attempt

    def _variables(self, session: Session) -> list[Variable]:
        found = [home_of(session, each) for each in self._saveables(session) or ()]
        return [home.variable for home in found if home is not None]

    def _syncs(self, session: Session) -> bool:
        return session.config.resolved().sync_checkpoints if self._sync is None else self._sync

    def _step(self, session: Session, global_step: Any) -> int | None:
        if global_step is None or _is_number(global_step):
            return None if global_step is None else int(global_step)
        saveable = variable_named(session.graph, global_step)
        home = home_of(session, saveable)
        if home is None or not home.variable.is_initialized:
            raise FailedPreconditionError(f"the global step '{saveable.node}' has no value: initialize it")
        value = home.variable.read()
        return int(value if home.device is None else home.device.copy_out(value))

    async def _step_by_running(self, session: Session, global_step: Any) -> int | None:
        if session.is_local or global_step is None or _is_number(global_step):
            return self._step(session, global_step)
        name = global_step if isinstance(global_step, str) else global_step.name
        return int(await session.run(name if ":" in name else f"{name}:0"))

    def _prefix(self, path: str | os.PathLike[str], step: int | None) -> str:
        text = path_text(path, "Saver.save")
        if not os.path.basename(text):
            raise InvalidArgumentError(f"{text!r} names a folder: add the name of the checkpoint")
        return text if step is None else f"{text}-{step}"


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


async def _on_thread(work: Callable[[], Any], path: str) -> Any:
    try:
        return await trio.to_thread.run_sync(work)
    except OSError as error:
        raise translated(error, os.fsdecode(error.filename) if error.filename else path) from error
