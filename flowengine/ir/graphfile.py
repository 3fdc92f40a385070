"""Bytes and files to protos: GraphDef, MetaGraphDef and SavedModel, binary or text, told apart by content.

    graph_def = parse_graph_def(Path("graph.pb").read_bytes())
    loaded = load_saved_model("export/1")
    loaded.graph_def, loaded.signatures["serving_default"].inputs["x"].name

Text is what has no control characters: a binary graph always has some, since the tag of a node's op is
one. A binary GraphDef and a MetaGraphDef are told apart by trying: the fields of one make no sense as
those of the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.files.kinds import kind_of
from flowengine.core.files.paths import similar_files
from flowengine.ir.proto import (
    CollectionDef,
    FunctionDef,
    GraphDef,
    MetaGraphDef,
    OpList,
    SavedModel,
    SignatureDef,
)
from flowengine.ir.proto.reading import parsed

_Message = TypeVar("_Message", bound=Message)

#: None of these is in text as any text format writer writes it.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")

#: The first field of a SavedModel in text; neither of the others has it.
_SAVED_MODEL_TEXT: Final = re.compile(r"^\s*(saved_model_schema_version\s*:|meta_graphs\s*[:{<])", re.M)
_META_GRAPH_TEXT: Final = re.compile(r"^(meta_info_def|graph_def|collection_def|signature_def)\s*[:{<]", re.M)

#: A function of an empty signature: the tag of that and its length.
_BLANK_BYTES: Final = 2
#: The tag that a graph for serving has by convention.
SERVING_TAG: Final = "serve"


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph and what came with it.

    signatures    name -> SignatureDef: the tensors that an export is called with
    collections   name -> CollectionDef: variables, queue runners, ...
    meta_graph    the whole MetaGraphDef; None where there was a bare GraphDef
    directory     of the SavedModel that it came from, for its variables and assets
    other_tags    the tags of each other graph of that SavedModel
    """

    graph_def: GraphDef
    signatures: Mapping[str, SignatureDef] = field(default_factory=dict)
    collections: Mapping[str, CollectionDef] = field(default_factory=dict)
    meta_graph: MetaGraphDef | None = None
    directory: Path | None = None
    other_tags: tuple[tuple[str, ...], ...] = ()

    @property
    def producer_ops(self) -> OpList | None:
        """The definitions of the graph's ops as its producer knows them; None where it left none."""
        info = None if self.meta_graph is None else self.meta_graph.meta_info_def
        return info.stripped_op_list if info is not None and info.HasField("stripped_op_list") else None


def parse_graph_def(data: bytes | bytearray | memoryview | str | Message) -> GraphDef:
    """The GraphDef in these bytes or this text, or a copy of the message, TensorFlow's own too.

    That of a MetaGraphDef or of a SavedModel with one graph is taken as well. Raises
    InvalidArgumentError for anything else, for data that is cut off, and for messages nested too deeply.
    """
    return load_graph(data).graph_def


def load_graph(data: bytes | bytearray | memoryview | str | Message) -> LoadedGraph:
    """The graph in a GraphDef, MetaGraphDef or SavedModel, with what comes along; errors as above."""
    if isinstance(data, Message):
        data = data.SerializeToString()
    if not isinstance(data, str):
        data = bytes(data)
    text = _as_text(data)
    if text is not None:
        if _SAVED_MODEL_TEXT.search(text):
            return _only_graph(_from_text(text, SavedModel()))
        if _META_GRAPH_TEXT.search(text):
            return _unpack(_from_text(text, MetaGraphDef()))
        return LoadedGraph(_from_text(text, GraphDef()))
    assert isinstance(data, bytes)
    graph_def: GraphDef | None = None
    try:
        graph_def = GraphDef.FromString(data)
        if data and not graph_def.ListFields():
            graph_def = None  # fields that no GraphDef has: nearly any bytes may be read as such
        elif _plausible(graph_def):
            return LoadedGraph(graph_def)
    except DecodeError:
        pass
    for kind in (MetaGraphDef, SavedModel):
        try:
            found = kind.FromString(data)
        except DecodeError:
            continue
        if isinstance(found, MetaGraphDef) and found.HasField("graph_def"):
            return _unpack(found)
        if isinstance(found, SavedModel) and found.meta_graphs:
            return _only_graph(found)
    if graph_def is not None:
        # It does parse; what is wrong with it is for the importer to say.
        return LoadedGraph(graph_def)
    other = kind_of(data)
    raise InvalidArgumentError(
        f"these {len(data)} bytes are no GraphDef, MetaGraphDef or SavedModel, in binary or text form, "
        + ("or they are cut off" if other is None else f"but {other}")
    )


def load_file(path: str | os.PathLike[str]) -> LoadedGraph:
    """Load the graph of a file, or of a SavedModel's directory; NotFoundError if there is none."""
    given = Path(path)
    if given.is_dir():
        return load_saved_model(given)
    try:
        return load_graph(given.read_bytes())
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {str(path)!r}{similar_files(path)}") from None


def load_meta_graph(data: bytes | str) -> LoadedGraph:
    """The graph of a MetaGraphDef (a checkpoint's `.meta`), with signatures and collections.

    Raises InvalidArgumentError where the data is something else.
    """
    text = _as_text(data)
    if text is not None:
        return _unpack(_from_text(text, MetaGraphDef()))
    assert isinstance(data, bytes)
    return _unpack(parsed(data, MetaGraphDef()))


def load_saved_model(path: str | Path, tags: str | Collection[str] | None = None) -> LoadedGraph:
    """The graph of a SavedModel: a folder with `saved_model.pb` or `.pbtxt`, or that file itself.

    tags   which graph of several: the one with just these, or else the only one that has all of them;
           None for the only graph, the one for serving, or where there is none the one without tags
    Raises NotFoundError where there is no such file or graph, InvalidArgumentError for damaged data.
    """
    given = Path(path)
    candidates = [given / "saved_model.pb", given / "saved_model.pbtxt"] if given.is_dir() else [given]
    file = next((c for c in candidates if c.is_file()), None)
    if file is None:
        raise NotFoundError(without_model(given))
    data = file.read_bytes()
    text = _as_text(data)
    kind = kind_of(data)
    if kind is not None:
        raise InvalidArgumentError(f"{file} is {kind}")
    saved = parsed(data, SavedModel()) if text is None else _from_text(text, SavedModel())
    if not saved.meta_graphs:
        raise InvalidArgumentError(
            f"{file} holds no SavedModel; fe.Graph.load reads a GraphDef or MetaGraphDef"
        )
    return _choose(saved, tags, file.parent)


def without_model(path: Path) -> str:
    """Say why a path is no SavedModel's: it leads nowhere, or its folder has no such file."""
    if not path.is_dir():
        return f"there is no folder {str(path)!r}{similar_files(path)}"
    inside = [each.parent.name for each in sorted(path.glob("*/saved_model.pb*"))]
    advice = f"; its folder {inside[-1]!r} has one" if inside else ""
    return f"folder {str(path)!r} is no SavedModel: it has no saved_model.pb or saved_model.pbtxt{advice}"


def graph_def_to_text(graph_def: GraphDef) -> str:
    """The text form, as `graph.pbtxt` holds it."""
    return text_format.MessageToString(graph_def)


def _only_graph(saved: SavedModel) -> LoadedGraph:
    try:
        return _choose(saved, None)
    except NotFoundError as error:
        raise InvalidArgumentError(f"{error.message}; say which by `load_saved_model`") from None


def _choose(
    saved: SavedModel, tags: str | Collection[str] | None, directory: Path | None = None
) -> LoadedGraph:
    graphs = list(saved.meta_graphs)
    if tags is None and len(graphs) == 1:
        return _unpack(graphs[0], directory)
    if tags is None:
        # A module of TF-Hub has its graph for use without tags, beside the one for training.
        serves = any(SERVING_TAG in each.meta_info_def.tags for each in graphs)
        has_untagged = any(not each.meta_info_def.tags for each in graphs)
        tags = () if has_untagged and not serves else SERVING_TAG
    wanted = {tags} if isinstance(tags, str) else set(tags)
    having = [graph for graph in graphs if wanted.issubset(graph.meta_info_def.tags)]
    exact = [graph for graph in having if wanted == set(graph.meta_info_def.tags)]
    chosen = exact or (having if wanted else [])
    if len(chosen) != 1:
        held = "; ".join(", ".join(g.meta_info_def.tags) or "(none)" for g in graphs)
        named = ", ".join(f"'{tag}'" for tag in sorted(wanted))
        said = f"with the tag{'s' if len(wanted) > 1 else ''} {named}" if wanted else "without tags"
        many = f"{len(chosen)} graphs" if chosen else "no graph"
        raise NotFoundError(f"the SavedModel has {many} {said} (its graphs' tags: {held})")
    others = tuple(tuple(each.meta_info_def.tags) for each in graphs if each is not chosen[0])
    return replace(_unpack(chosen[0], directory), other_tags=others)


def _unpack(meta: MetaGraphDef, directory: Path | None = None) -> LoadedGraph:
    return LoadedGraph(meta.graph_def, dict(meta.signature_def), dict(meta.collection_def), meta, directory)


def _plausible(graph_def: GraphDef) -> bool:
    """Whether what parsed as a GraphDef is one: a MetaGraphDef's description would be a node."""
    if not graph_def.node:
        # An empty graph is one; a MetaGraphDef without description has its graph for a library, a SavedModel
        # of one has it for a function's gradient.
        library = graph_def.library
        names = {function.signature.name for function in library.function}
        return all(f.signature.name or _is_blank(f) for f in library.function) and all(
            gradient.function_name in names for gradient in library.gradient
        )
    first = graph_def.node[0]
    return bool(first.name and first.op) and first.op.isprintable()


def _is_blank(function: FunctionDef) -> bool:
    """Whether it has a signature and nothing in it; what else there is without a name is no function."""
    return function.HasField("signature") and function.ByteSize() == _BLANK_BYTES


def _as_text(data: bytes | str) -> str | None:
    """The text, or None where the data is binary."""
    if isinstance(data, str):
        return data
    if not data or _CONTROL.search(data):
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return None


def _from_text(text: str, message: _Message) -> _Message:
    name = message.DESCRIPTOR.name
    # A SavedModel's object graph is not declared here: in text it can only be passed over.
    lenient = name != "GraphDef"
    try:
        text_format.Parse(text, message, allow_unknown_field=lenient)
    except text_format.ParseError as error:
        raise InvalidArgumentError(f"this text is no {name}: {error}") from None
    except RecursionError:
        raise InvalidArgumentError(f"this text is no {name}: its messages are nested too deeply") from None
    except (ValueError, DecodeError) as error:
        raise InvalidArgumentError(f"this text is no {name}: {error}") from None
    return message
