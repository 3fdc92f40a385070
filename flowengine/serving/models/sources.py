"""The content of a version's folder: a SavedModel, a frozen graph or a MetaGraph with its checkpoint.

A frozen graph, and a MetaGraph without signatures, have a file `signatures.json` beside them:

    {"serving_default": {"inputs": {"image": "image:0"}, "outputs": {"scores": "scores:0"}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from flowengine.checkpoint.state import exists
from flowengine.core.config import Config
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.graphs.graph import Graph
from flowengine.ir.graphfile import load_file
from flowengine.ir.proto import MetaGraphDef
from flowengine.kernels.load import import_for, registry
from flowengine.saved_model.loading import load, restore
from flowengine.saved_model.model import AwaitedModel
from flowengine.saved_model.reading import SavedGraph, read_saved_model
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor, signature_facts
from flowengine.serving.models.at_target import open_at
from flowengine.serving.models.settings import SIGNATURES
from flowengine.session import Session
from flowengine.train import Saver

#: The purpose of a signature that is written without one.
_PREDICT: Final = "tensorflow/serving/predict"
_GRAPH_FILES: Final = (".pb", ".pbtxt", ".meta")


async def load_version(folder: Path, *, config: Config | None = None, target: str = "") -> AwaitedModel:
    """Load what a folder holds, restore its variables, and plan the calls of its signatures.

    Raises NotFoundError if the folder holds no model, InvalidArgumentError or DataLossError for a damaged
    one, and what a restoring step raises. Cancelled, it leaves nothing open.
    """
    if any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
        if target:
            saved = await trio.to_thread.run_sync(read_saved_model, folder)
            return await open_at(target, saved, config, restore)
        model = await load(folder, config=config)
    else:
        saved = await trio.to_thread.run_sync(_read, folder, config)
        if target:
            return await open_at(target, saved, config, _restore)
        model = await _open(saved, config)
    try:
        for signature in model.signatures.values():
            await signature.prepare()
    except BaseException:
        with trio.CancelScope(shield=True):
            await model.close()
        raise
    return model


async def _open(saved: SavedGraph, config: Config | None) -> AwaitedModel:
    session = Session(saved.graph, config=config)
    try:
        await _restore(session, saved)
    except BaseException:
        with trio.CancelScope(shield=True):
            await session.close()
        raise
    return AwaitedModel(saved, session)


async def _restore(session: Session, saved: SavedGraph) -> None:
    """Restore the variables of a graph that is no SavedModel, and initialize its tables."""
    if saved.checkpoint is not None:
        await Saver.from_meta_graph(saved.meta_graph).restore(session, saved.checkpoint)
    if saved.initializing is not None:
        await session.run((), targets=[saved.initializing])


def _read(folder: Path, config: Config | None) -> SavedGraph:
    """Read a graph and its signatures, on a thread."""
    file = _graph_file(folder)
    loaded = load_file(file)
    graph = Graph.from_graph_def(loaded.graph_def)
    described = folder / SIGNATURES
    if described.exists():
        signatures = _signatures(described, graph)
    else:
        signatures = {name: signature_facts(name, each) for name, each in loaded.signatures.items()}
    if not signatures:
        raise NotFoundError(
            f"{str(file)!r} has no signatures: write {SIGNATURES} beside it, such as "
            '{"serving_default": {"inputs": {"x": "x:0"}, "outputs": {"y": "y:0"}}}'
        )
    settings = (Config() if config is None else config).resolved()
    import_for((node.op for node in graph), registry(settings.kernel_provider))
    return SavedGraph(
        path=folder,
        tags=(),
        graph=graph,
        signatures=signatures,
        checkpoint=_checkpoint(file),
        restoring=None,
        initializing=_initializing(graph, loaded.collections),
        training=None,
        feeds={},
        variables={},
        objects=None,
        meta_graph=MetaGraphDef() if loaded.meta_graph is None else loaded.meta_graph,
    )


def _graph_file(folder: Path) -> Path:
    files = sorted(each for each in folder.iterdir() if each.suffix in _GRAPH_FILES and each.is_file())
    if len(files) == 1:
        return files[0]
    if not files:
        raise NotFoundError(
            f"{str(folder)!r} holds no model: neither saved_model.pb nor a graph (.pb, .pbtxt or .meta)"
        )
    names = ", ".join(each.name for each in files[:5])
    raise InvalidArgumentError(f"{str(folder)!r} holds several graphs ({names}): leave the one to serve")


def _checkpoint(file: Path) -> str | None:
    """Return the prefix of the checkpoint that a MetaGraph was written with; NotFoundError if it is gone."""
    if file.suffix != ".meta":
        return None
    prefix = str(file.with_suffix(""))
    if not exists(prefix):
        raise NotFoundError(f"the checkpoint of {str(file)!r} is missing: no file {prefix + '.index'!r}")
    return prefix


def _initializing(graph: Graph, collections: Mapping[str, Any]) -> str | None:
    """Return the node that fills tables; several are put behind a node of their own."""
    names: list[str] = []
    for key in ("saved_model_main_op", "legacy_init_op", "table_initializer"):
        if key in collections:
            names = list(collections[key].node_list.value)
        if names:
            break
    if len(names) < 2:
        return names[0] if names else None
    with graph.control_dependencies([graph.operation(name) for name in names]):
        return str(graph.ops.NoOp(name="initialize_tables").name)


def _signatures(file: Path, graph: Graph) -> dict[str, SignatureFacts]:
    """Read `signatures.json`; InvalidArgumentError for anything that it may not say."""
    try:
        read = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise InvalidArgumentError(f"{str(file)!r} is no JSON: {error}") from None
    if not isinstance(read, dict) or not all(isinstance(each, dict) for each in read.values()):
        raise InvalidArgumentError(f"{str(file)!r}: it must be an object of signatures by name")
    return {
        name: _signature(f"{str(file)!r}: signature {name!r}", name, each, graph)
        for name, each in read.items()
    }


def _signature(where: str, name: str, described: Mapping[str, Any], graph: Graph) -> SignatureFacts:
    unknown = sorted(described.keys() - {"inputs", "outputs", "method"})
    if unknown:
        raise InvalidArgumentError(f"{where} has {unknown[0]!r}; it has inputs, outputs and method")
    sides = []
    for key in ("inputs", "outputs"):
        side = described.get(key)
        if not isinstance(side, dict) or not all(isinstance(each, str) for each in side.values()):
            raise InvalidArgumentError(f"{where} needs {key}: an object of tensors by name")
        sides.append({alias: _tensor(graph, tensor) for alias, tensor in sorted(side.items())})
    return SignatureFacts(name, sides[0], sides[1], str(described.get("method", _PREDICT)))


def _tensor(graph: Graph, name: str) -> SignatureTensor:
    tensor = graph.tensor(name if ":" in name else f"{name}:0")
    return SignatureTensor((tensor.name,), tensor.dtype.base, tensor.shape)


__all__ = ["load_version"]
