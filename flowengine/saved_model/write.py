"""Writing SavedModels in the form of TensorFlow 1, which TensorFlow 1 and 2 load.

signatures = {"serving_default": ({"x": x}, {"y": y})}
await fe.saved_model.save(session, "export/1", signatures=signatures)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowengine.checkpoint import BundleWriter
from flowengine.checkpoint.elements import Check, never
from flowengine.checkpoint.slices import parse_shape_and_slice
from flowengine.core.dtypes import DType
from flowengine.core.errors import AlreadyExistsError, InvalidArgumentError
from flowengine.core.names import parse_tensor_name
from flowengine.core.shapes import TensorShape
from flowengine.graphs.collections import Collections
from flowengine.graphs.graph import Graph
from flowengine.graphs.meta_graph import to_meta_graph
from flowengine.graphs.reading import needed_by, part_of, readers_of, value_of
from flowengine.graphs.saving import SaverNodes, add_saver_nodes
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.initializing import listed_variables
from flowengine.graphs.variables.keys import LOCAL_VARIABLES, VARIABLES
from flowengine.ir.proto import AssetFileDef, MetaGraphDef, SavedModel, SaverDef, SignatureDef, TensorInfo
from flowengine.ir.stripping import drop_uncalled, strip_defaults
from flowengine.ir.tensorproto import set_type, shape_to_proto
from flowengine.ir.traits import GivesVariable
from flowengine.kernels.common.file_access import translated
from flowengine.saved_model.reading import ASSETS, INIT_OP, TRAIN_OP
from flowengine.saved_model.reading import VARIABLES as VARIABLES_FOLDER
from flowengine.saved_model.signatures import SparseValue

#: What a signature is for unless it says otherwise, in TensorFlow's words.
PREDICT: Final = "tensorflow/serving/predict"


@dataclass(frozen=True, slots=True)
class ExportedVariable:
    """A variable as nodes save it, and the tensor that has its value."""

    name: bytes
    spec: str
    node: str
    dtype: DType
    shape: TensorShape
    value: str


@dataclass(frozen=True, slots=True)
class Export:
    """The content of an export, without values: {tensor: file} of assets, a message, variables."""

    meta: MetaGraphDef
    variables: Sequence[ExportedVariable]
    assets: Mapping[str, Path]


def exported_variables(graph: Graph, wanted: Iterable[str]) -> list[ExportedVariable]:
    """The variables that the graph lists, and those that some nodes need; parts of larger ones as slices.

    Those that the graph lists as local are left out.
    """
    needed = needed_by(graph, wanted)
    lasting = {each.op.name: each for each in listed_variables(graph, VARIABLES)}
    local = {each.op.name for each in listed_variables(graph, LOCAL_VARIABLES)} - lasting.keys()
    found: dict[tuple[Any, Any], ExportedVariable] = {}
    readers = readers_of(graph)
    for node in list(graph):
        trait = node.trait(GivesVariable)
        if trait is None or node.name in local or not (node.name in needed or node.name in lasting):
            continue
        part = lasting[node.name].save_slice if node.name in lasting else None
        dtype, shape = node.attrs[trait.dtype], node.attrs.get("shape")
        assert isinstance(dtype, DType)
        key = (node.attrs.get("container", b""), node.attrs.get("shared_name") or node.name)
        if key not in found:
            found[key] = ExportedVariable(
                os.fsencode(node.name if part is None else part.full_name),
                "" if part is None else part.spec,
                node.name,
                dtype.base,
                shape if isinstance(shape, TensorShape) else TensorShape(None),
                value_of(graph, node.name, dtype.base, readers),
            )
    return list(found.values())


def roots_of(graph: Graph, signatures: Mapping[str, Any], *others: Any) -> list[str]:
    """The nodes of what signatures give, and of others that are not None."""
    found = [_operation_name(graph, each) for each in others if each is not None]
    for signature in signatures.values():
        outputs = signature[1] if isinstance(signature, tuple) and len(signature) > 1 else {}
        for value in outputs.values() if isinstance(outputs, Mapping) else ():
            parts = value if isinstance(value, SparseValue) else (value,)
            found += [parse_tensor_name(tensor_name(graph, each))[0] for each in parts]
    return found


def describe(
    graph: Graph,
    variables: Sequence[ExportedVariable],
    *,
    signatures: Mapping[str, Any],
    tags: Sequence[str],
    assets: Mapping[str, Path],
    initializing: Any = None,
    training: Any = None,
    prunes: bool = False,
) -> MetaGraphDef:
    """The MetaGraphDef of an export: the graph with nodes that save and restore, and what is said of it.

    prunes   whether nodes that nothing of it needs are left out, and collections with them
    """
    if prunes:
        roots = roots_of(graph, signatures, initializing, training)
        exported = part_of(graph, [*roots, *(each.node for each in variables)])
    else:
        exported = graph.__copy__()
    nodes = add_saver_nodes(exported, variables, _free_scope(graph)) if variables else None
    meta: MetaGraphDef = to_meta_graph(exported, Collections() if prunes else graph.collections)
    meta.meta_info_def.tags.extend(tags)
    if nodes is not None:
        meta.saver_def.CopyFrom(_saver_def(nodes))
    for name, signature in signatures.items():
        meta.signature_def[name].CopyFrom(signature_def(graph, name, signature))
    for key, node, collection in (
        (INIT_OP, initializing, "saved_model_main_op"),
        (TRAIN_OP, training, "saved_model_train_op"),
    ):
        if node is not None:
            name = _operation_name(graph, node)
            meta.signature_def[key].outputs[key].name = name
            del meta.collection_def[collection].node_list.value[:]
            meta.collection_def[collection].node_list.value.append(name)
    for tensor, file in assets.items():
        named = AssetFileDef(filename=file.name)
        named.tensor_info.name = tensor
        meta.asset_file_def.append(named)
    if prunes:
        drop_uncalled(meta.graph_def)
    strip_defaults(meta.graph_def, graph.registry)
    for node in meta.graph_def.node:
        if node.op == "VarHandleOp" and "debug_name" in node.attr:
            # TensorFlow 2's note for messages; TensorFlow 1 refuses a handle that has one.
            del node.attr["debug_name"]
    meta.meta_info_def.stripped_default_attrs = True
    return meta


def _saver_def(nodes: SaverNodes) -> SaverDef:
    return SaverDef(
        filename_tensor_name=nodes.filename,
        save_tensor_name=nodes.save,
        restore_op_name=nodes.restore,
        max_to_keep=5,
        keep_checkpoint_every_n_hours=10000.0,
        version=SaverDef.V2,
    )


def _free_scope(graph: Graph) -> str:
    """A scope for the saver's nodes: `save`, and another where the graph has been saved before."""
    taken = {node.name.partition("/")[0] for node in graph}
    numbered = (f"save_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in ("save", *numbered) if name not in taken)


def signature_def(graph: Graph, name: str, signature: Any) -> SignatureDef:
    """The SignatureDef of (inputs, outputs) or (inputs, outputs, method).

    Raises InvalidArgumentError for anything else, and for tensors that the graph does not have.
    """
    if not isinstance(signature, tuple) or not 2 <= len(signature) <= 3:
        raise InvalidArgumentError(f"signature '{name}' must be a tuple of its inputs and its outputs")
    inputs, outputs, method = (*signature, PREDICT)[:3]
    result = SignatureDef(method_name=method)
    for side, given in ((result.inputs, inputs), (result.outputs, outputs)):
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(f"signature '{name}': {given!r} is not a dict of names and tensors")
        for key, value in given.items():
            side[key].CopyFrom(_tensor_info(graph, value))
    return result


def _tensor_info(graph: Graph, value: Any) -> TensorInfo:
    info = TensorInfo()
    if isinstance(value, SparseValue):
        names = [tensor_name(graph, each) for each in value]
        info.coo_sparse.indices_tensor_name = names[0]
        info.coo_sparse.values_tensor_name = names[1]
        info.coo_sparse.dense_shape_tensor_name = names[2]
        set_type(info, graph.tensor(names[1]).dtype)
        info.tensor_shape.unknown_rank = True
        return info
    tensor = graph.tensor(tensor_name(graph, value))
    info.name = tensor.name
    set_type(info, tensor.dtype.base)
    info.tensor_shape.CopyFrom(shape_to_proto(graph.shape_of(tensor.port)))
    return info


def tensor_name(graph: Graph, value: Any) -> str:
    if hasattr(value, "__flowengine_tensor__"):
        value = value.__flowengine_tensor__(graph, None, None)
    if isinstance(value, Tensor):
        if value.graph is not graph:
            raise InvalidArgumentError(f"'{value.name}' belongs to another graph")
        return value.name
    name = str(value)
    return graph.tensor(name if ":" in name else f"{name}:0").name


def _operation_name(graph: Graph, value: Any) -> str:
    name = value.name if isinstance(value, Operation) else str(value)
    return graph.operation(name.partition(":")[0]).name


def write(target: Path, export: Export, values: Iterable[Any], check: Check = never) -> None:
    """Write the directory beside its place and rename it: it is whole or not there; folders above are made.

    `check` is called between pieces and may raise to stop. Raises AlreadyExistsError where there is something
    at the target, NotFoundError for an asset that is not there.
    """
    if target.exists():
        raise AlreadyExistsError(
            f"'{target}' exists already and is not overwritten: remove it, or choose another path"
        )
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir()
        saved = SavedModel(saved_model_schema_version=1, meta_graphs=[export.meta])
        (aside / "saved_model.pb").write_bytes(saved.SerializeToString(deterministic=True))
        (aside / VARIABLES_FOLDER).mkdir()
        if export.variables:
            prefix = str(aside / VARIABLES_FOLDER / VARIABLES_FOLDER)
            with BundleWriter(prefix, check=check) as writer:
                for each, value in zip(export.variables, values, strict=True):
                    _add(writer, each, value)
        if export.assets:
            (aside / ASSETS).mkdir()
        for file in export.assets.values():
            shutil.copyfile(file, aside / ASSETS / file.name)
        aside.rename(target)
    except OSError as error:
        raise translated(error, os.fsdecode(error.filename or target)) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _add(writer: BundleWriter, variable: ExportedVariable, value: Any) -> None:
    if not variable.spec:
        writer.add(variable.name, value, variable.dtype)
        return
    shape, part, _ = parse_shape_and_slice(variable.spec)
    writer.add_slice(variable.name, shape, part, value, variable.dtype)
