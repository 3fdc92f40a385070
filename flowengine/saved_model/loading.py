"""Loading a SavedModel into a session: its variables restored, its tables initialized."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from flowengine.core.config import Config, box_of
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.sessions.calls import takes_session
from flowengine.graphs.given import model_path
from flowengine.graphs.opaque_graphs import ModelFolder
from flowengine.ir.graphfile import without_model
from flowengine.ir.proto import MetaGraphDef
from flowengine.kernels.load import import_for, registry
from flowengine.resources.container import ResourceManager
from flowengine.saved_model.model import AwaitedModel
from flowengine.saved_model.reading import VARIABLES, SavedGraph, read_saved_model
from flowengine.session import Session


async def load(
    path: str | os.PathLike[str],
    *,
    tags: str | Collection[str] | None = None,
    config: Config | None = None,
    target: str = "",
    resources: ResourceManager | None = None,
) -> AwaitedModel:
    """Load a SavedModel that TensorFlow 1, TensorFlow 2 or FlowEngine has written.

    path     its directory, with `saved_model.pb` in it
    tags     which graph of several: its tags, all of them; None for the only one, the one for
             serving, or where there is none the one without tags
    config, target, resources   of the session; see `Session`. Under `Config.sandbox` the files are read by
             the process in the box alone, and the model has signatures, but no variables and functions

    Close the model when it is done. Raises NotFoundError where there is none or no graph with these tags,
    InvalidArgumentError or DataLossError for a damaged one. Cancelled, it leaves nothing open.

    >>> with fe.blocking.Session(fe.Graph()) as session:
    ...     x = session.graph.placeholder("float32", [], name="x")
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> async def main():
    ...     async with await fe.saved_model.load("export") as model:
    ...         print((await model.signature(x=4.0))["y"])
    >>> trio.run(main)
    8.0
    """
    saved = await trio.to_thread.run_sync(partial(_read, path, tags, config, imports_kernels=not target))
    session = Session(saved.graph, target=target, config=config, resources=resources)
    try:
        saved = await restored(session, saved)
    except BaseException:
        with trio.CancelScope(shield=True):
            await session.close()
        raise
    return AwaitedModel(saved, session)


def _read(
    path: str | os.PathLike[str],
    tags: str | Collection[str] | None,
    config: Config | None,
    *,
    imports_kernels: bool,
) -> SavedGraph:
    """Do as `source_of`, on a thread, and import the kernels, so that the first plan need not."""
    saved = source_of(path, tags, config)
    if imports_kernels and not isinstance(saved.graph, ModelFolder):
        settings = (Config() if config is None else config).resolved()
        import_for((node.op for node in saved.graph), registry(settings.kernel_provider))
    return saved


def source_of(
    path: str | os.PathLike[str], tags: str | Collection[str] | None, config: Config | None
) -> SavedGraph:
    """Return the graph of a SavedModel for a session: read here, or for a sandbox only its path."""
    path = model_path(path, "fe.saved_model.load")
    if config is None or box_of(config) is None:
        return read_saved_model(path, tags)
    if not Path(path, "saved_model.pb").exists() and not Path(path, "saved_model.pbtxt").exists():
        raise NotFoundError(without_model(Path(path)))
    graph: Any = ModelFolder(path, tags)
    return SavedGraph(
        path=graph.path,
        tags=graph.tags or (),
        graph=graph,
        signatures={},
        checkpoint=None,
        restoring=None,
        initializing=None,
        training=None,
        feeds={},
        variables={},
        objects=None,
        meta_graph=MetaGraphDef(),
    )


async def restored(session: Session, saved: SavedGraph) -> SavedGraph:
    """Restore the variables, here or in a sandbox, and return the model's facts, with its signatures."""
    if isinstance(saved.graph, ModelFolder):
        elsewhere: Any = session.elsewhere
        return replace(saved, signatures=await elsewhere.signatures())
    await restore(session, saved)
    return saved


@takes_session()
async def restore(
    session: Session, saved: SavedGraph, checkpoint: str | os.PathLike[str] | None = None
) -> None:
    """Restore the variables in a session of a SavedModel's graph, then initialize tables and the like.

    session      a session of `saved.graph`
    saved        the content of the directory, of `read_saved_model`
    checkpoint   the prefix of another checkpoint of the same variables

    The graph's own ops read the files, so the session needs `file_access` of at least "read", and at a target
    the files are those of its process. Raises the errors of the steps: NotFoundError, DataLossError.
    Cancelled between the two steps it leaves variables restored and tables empty.

    >>> graph = fe.Graph()
    >>> x, w = graph.placeholder("float32", [], name="x"), graph.variable(2.0, name="w")
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     session.call(fe.saved_model.save, "export", signatures={"scale": ({"x": x}, {"y": x * w})})
    >>> saved = fe.saved_model.read_saved_model("export")
    >>> with fe.blocking.Session(saved.graph) as session:
    ...     session.call(fe.saved_model.restore, saved)
    ...     print(session.run("w"))
    2.0
    """
    prefix = saved.checkpoint if checkpoint is None else os.fspath(checkpoint)
    if prefix is None and saved.restoring is not None and saved.variables:
        missing = saved.path / VARIABLES / f"{VARIABLES}.index"
        raise NotFoundError(
            f"the SavedModel has {len(saved.variables)} variables, but their checkpoint is missing: no file "
            f"{str(missing)!r}; the folder was copied without its {VARIABLES}/, or not all was downloaded"
        )
    if prefix is not None and saved.restoring is not None:
        filename, node = saved.restoring
        await session.run((), {filename: os.fsencode(prefix), **saved.feeds}, targets=[node])
    elif checkpoint is not None:
        raise InvalidArgumentError(f"{saved.path} has no node that restores variables: leave checkpoint= out")
    if saved.initializing is not None:
        await session.run((), dict(saved.feeds), targets=[saved.initializing])
