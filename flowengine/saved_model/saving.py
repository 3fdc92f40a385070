"""Writing the graph of a session, and what its variables hold, as a SavedModel.

signatures = {"serving_default": ({"x": x}, {"y": y})}
await fe.saved_model.save(session, "export/1", signatures=signatures)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.deprecated import renamed_arguments
from flowengine.core.sessions.calls import takes_session
from flowengine.graphs.graph import Graph
from flowengine.ir.graphfile import SERVING_TAG
from flowengine.saved_model.write import Export, describe, exported_variables, roots_of, tensor_name, write


@takes_session()
@renamed_arguments(initialising="initializing")
async def save(
    session: Any,
    path: str | os.PathLike[str],
    *,
    signatures: Mapping[str, Any],
    tags: Sequence[str] = (SERVING_TAG,),
    assets: Mapping[Any, str | os.PathLike[str]] | None = None,
    initializing: Any = None,
    training: Any = None,
    prune: bool = False,
) -> None:
    """Write a session's graph and the present values of its variables as a SavedModel.

    path           the directory to make, with those above it
    signatures     {name: (inputs, outputs)} or {name: (inputs, outputs, method)}: inputs and outputs are
                   {name: tensor}, by name or as Tensors, or a `SparseValue` of three
    tags           what the graph is for
    assets         {constant that names a file: the file}: copied into the directory
    initializing   the node that whoever loads runs after the variables are restored, such as that of tables
    training       the node of a training step
    prune          leave out the nodes and functions that none of these needs; a model that TensorFlow 2 wrote
                   can be read by TensorFlow 1 only without them

    Saved are the variables that the graph lists, and those that signatures need; see `Graph.collection`.
    From another façade: `session.call(fe.saved_model.save, path, signatures=...)`. The graph grows by nodes
    that read variables, where it has none. Raises AlreadyExistsError where there is something at the path,
    InvalidArgumentError for a signature that does not fit, FailedPreconditionError for a variable without a
    value; then there is no directory. Cancelled, it leaves the whole of it or nothing.
    """
    graph = session.graph
    if not isinstance(graph, Graph):
        raise InvalidArgumentError("fe.saved_model.save needs a session whose graph is a fe.Graph")
    variables = exported_variables(graph, roots_of(graph, signatures, initializing, training))
    files = {tensor_name(graph, tensor): Path(os.fspath(file)) for tensor, file in (assets or {}).items()}
    meta = describe(
        graph,
        variables,
        signatures=signatures,
        tags=tags,
        assets=files,
        initializing=initializing,
        training=training,
        prunes=prune,
    )
    values = await session.run([each.value for each in variables]) if variables else []
    export, target = Export(meta, variables, files), Path(os.fspath(path))
    await trio.to_thread.run_sync(lambda: write(target, export, values, trio.from_thread.check_cancelled))
