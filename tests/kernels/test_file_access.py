"""`Config.file_access`: each op that touches a file refuses to where it is not allowed."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import PermissionDeniedError
from flowengine.ir.trait_checks.outward import CallsPython, ReadsFiles, WritesFiles
from flowengine.kernels.index import OPS
from flowengine.ops.load import registry

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
DATASETS = ROOT / "flowengine" / "resources" / "data"

Build = Callable[[fe.Graph, str], Any]


def strings(graph: fe.Graph, *values: str) -> Any:
    return graph.constant(list(values), "string")


def record_of(reader: str, take: str = "ReaderReadV2", **attrs: Any) -> Build:
    def build(graph: fe.Graph, path: str) -> Any:
        newer = take.endswith("V2")
        make = getattr(graph.ops, "FIFOQueueV2" if newer else "FIFOQueue")
        queue = make(component_types=["string"])
        enqueue = getattr(graph.ops, "QueueEnqueueV2" if newer else "QueueEnqueue")
        with graph.control_dependencies([enqueue(queue, [graph.constant(path, "string")])]):
            handle = getattr(graph.ops, reader)(**attrs)
            count = [graph.constant(5, "int64")] if "UpTo" in take else []
            return getattr(graph.ops, take)(handle, queue, *count)[1]

    return build


def table(version: str) -> Build:
    def build(graph: fe.Graph, path: str) -> Any:
        handle = getattr(graph.ops, f"HashTable{version}")(key_dtype="string", value_dtype="int64")
        make = getattr(graph.ops, f"InitializeTableFromTextFile{version}")
        return make(handle, path, key_index=-2, value_index=-1)

    return build


def vocabulary(graph: fe.Graph, path: str) -> Any:
    make = graph.ops.GenerateVocabRemapping
    return make(path, path, new_vocab_offset=0, num_new_vocab=2).remapping


def matrix(graph: fe.Graph, path: str) -> Any:
    rows = graph.constant([0], "int64")
    nothing = graph.constant([], "int64"), graph.constant([], "float32")
    return graph.ops.LoadAndRemapMatrix(path, "name", rows, *nothing, num_rows=1, num_cols=1)


def words_drawn(graph: fe.Graph, path: str) -> Any:
    make = graph.ops.FixedUnigramCandidateSampler
    classes = graph.constant([[0]], "int64")
    return make(
        classes, num_true=1, num_sampled=1, unique=False, range_max=2, vocab_file=path
    ).sampled_candidates


def elements_of(dataset: Callable[[fe.Graph, str], Any]) -> Build:
    """Return a function that builds a node for the one element of a dataset of files."""

    def build(graph: fe.Graph, path: str) -> Any:
        said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
        return graph.ops.DatasetToSingleElement(dataset(graph, path), **said)[0]

    return build


PAIRS: dict[str, Any] = {"output_types": ["string", "string"], "output_shapes": [[], []]}


def record_dataset(op: str, *arguments: Any, **attrs: Any) -> Build:
    """A dataset of the records of a file; `arguments` are what follows the path."""
    return elements_of(lambda graph, path: getattr(graph.ops, op)(path, *arguments, **attrs))


def rows_of(op: str) -> Build:
    def dataset(graph: fe.Graph, path: str) -> Any:
        defaults = [strings(graph, "x")]
        none = [np.zeros(0, np.int64)] * (2 if op == "CSVDatasetV2" else 1)
        settings = (b"", np.int64(1 << 16), np.bool_(False), b",", np.bool_(True), b"")
        said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
        return getattr(graph.ops, op)(path, *settings, none[0], defaults, *none[1:], **said)

    return elements_of(dataset)


def queried(op: str) -> Build:
    said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
    return elements_of(lambda graph, path: getattr(graph.ops, op)(b"sqlite", path, b"SELECT 1", **said))


def records_written(op: str) -> Build:
    def build(graph: fe.Graph, path: str) -> Any:
        one = graph.ops.TensorDataset([graph.constant("x", "string")], output_shapes=[[]])
        return getattr(graph.ops, op)(one, path, b"")

    return build


def cached(op: str) -> Build:
    def dataset(graph: fe.Graph, path: str) -> Any:
        said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
        one = graph.ops.TensorDataset([strings(graph, "x")], output_shapes=[[1]])
        more = (graph.ops.DummyMemoryCache(),) if op == "CacheDatasetV2" else ()
        return getattr(graph.ops, op)(one, path, *more, **said)

    return elements_of(dataset)


def loaded(graph: fe.Graph, path: str) -> Any:
    @fe.function(graph, ["variant"])
    def reader(shards: Any) -> Any:
        return shards.graph.ops.Identity(shards)

    said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
    return graph.ops.LoadDataset(path, [], reader_func=reader.attr, **said)


def saved(op: str, **said: Any) -> Callable[[fe.Graph, str], Any]:
    def build(graph: fe.Graph, path: str) -> Any:
        one = graph.ops.TensorDataset([graph.constant("x", "string")], output_shapes=[[]])
        return getattr(graph.ops, op)(one, path, [], shard_func="none", use_shard_func=False, **said)

    return build


def snapshot(graph: fe.Graph, path: str) -> Any:
    @fe.function(graph, ["string"])
    def shard(text: Any) -> Any:
        return text.graph.constant(0, "int64")

    @fe.function(graph, ["variant"])
    def reader(shards: Any) -> Any:
        return shards.graph.ops.Identity(shards)

    one = graph.ops.TensorDataset([graph.constant("x", "string")], output_shapes=[[]])
    said: dict[str, Any] = {"output_types": ["string"], "output_shapes": [[]]}
    said.update(reader_func=reader.attr, shard_func=shard.attr)
    return graph.ops.SnapshotDatasetV2(one, path, [], [], **said)


def first_snapshot(graph: fe.Graph, path: str) -> Any:
    one = graph.ops.TensorDataset([graph.constant("x", "string")], output_shapes=[[]])
    return graph.ops.SnapshotDataset(one, path, output_types=["string"], output_shapes=[[]])


def part_of_snapshot(op: str, *more: Any, **said: Any) -> Build:
    said = {"output_types": ["string"], "output_shapes": [[]], **said}
    return elements_of(lambda graph, path: getattr(graph.ops, op)(path, *more, **said))


def decoded(graph: fe.Graph, path: str) -> Any:
    said: dict[str, Any] = {"message_type": "M", "field_names": [], "output_types": []}
    return graph.ops.DecodeProtoV2(strings(graph, ""), descriptor_source=path, **said).sizes


def encoded(graph: fe.Graph, path: str) -> Any:
    sizes, values = graph.constant([[1]], "int32"), [graph.constant([["x"]], "string")]
    return graph.ops.EncodeProto(sizes, values, message_type="M", field_names=["f"], descriptor_source=path)


def numbers(graph: fe.Graph) -> fe.Tensor:
    return graph.constant([1], "int32")


def pieces_of(op: str) -> Build:
    def build(graph: fe.Graph, path: str) -> Any:
        return getattr(graph.ops, op)(strings(graph, "x"), 0, 0.0, model_file=path)[0]

    return build


#: What reads, by the name of the op; a variant of the node follows a colon.
READING: dict[str, Build] = {
    "ReadFile": lambda g, p: g.ops.ReadFile(p),
    "MatchingFiles": lambda g, p: g.ops.MatchingFiles(p),
    "WholeFileReader": record_of("WholeFileReader", "ReaderRead"),
    "WholeFileReaderV2": record_of("WholeFileReaderV2"),
    "TextLineReader": record_of("TextLineReader", "ReaderReadUpTo"),
    "TextLineReaderV2": record_of("TextLineReaderV2", "ReaderReadUpToV2"),
    "TFRecordReader": record_of("TFRecordReader", "ReaderRead"),
    "TFRecordReaderV2": record_of("TFRecordReaderV2"),
    "FixedLengthRecordReader": record_of("FixedLengthRecordReader", "ReaderRead", record_bytes=1),
    "FixedLengthRecordReaderV2": record_of("FixedLengthRecordReaderV2", record_bytes=1),
    "LMDBReader": record_of("LMDBReader", "ReaderRead"),
    "RecordInput": lambda g, p: g.ops.RecordInput(file_pattern=p, batch_size=1),
    "InitializeTableFromTextFile": table(""),
    "InitializeTableFromTextFileV2": table("V2"),
    "GenerateVocabRemapping": vocabulary,
    "LoadAndRemapMatrix": matrix,
    "FixedUnigramCandidateSampler": words_drawn,
    "RestoreV2": lambda g, p: g.ops.RestoreV2(p, strings(g, "x"), strings(g, ""), dtypes=["float32"])[0],
    "Restore": lambda g, p: g.ops.Restore(p, "x", dt="float32"),
    "RestoreSlice": lambda g, p: g.ops.RestoreSlice(p, "x", "", dt="float32"),
    "TextLineDataset": record_dataset("TextLineDataset", b"", np.int64(0)),
    "TFRecordDataset": record_dataset("TFRecordDataset", b"", np.int64(0)),
    "TFRecordDatasetV2": record_dataset("TFRecordDatasetV2", b"", np.int64(0), np.zeros(0, np.int64)),
    "FixedLengthRecordDataset": record_dataset("FixedLengthRecordDataset", *map(np.int64, (0, 1, 0, 0))),
    "FixedLengthRecordDatasetV2": record_dataset(
        "FixedLengthRecordDatasetV2", *map(np.int64, (0, 1, 0, 0)), b""
    ),
    "LMDBDataset": record_dataset("LMDBDataset", **PAIRS),
    "ExperimentalLMDBDataset": record_dataset("ExperimentalLMDBDataset", **PAIRS),
    "LoadDataset": elements_of(loaded),
    "SnapshotChunkDataset": part_of_snapshot("SnapshotChunkDataset"),
    "SnapshotDatasetReader": part_of_snapshot("SnapshotDatasetReader", np.int64(0), version=2),
    "MatchingFilesDataset": record_dataset("MatchingFilesDataset"),
    "ExperimentalMatchingFilesDataset": record_dataset("ExperimentalMatchingFilesDataset"),
    "SqlDataset": queried("SqlDataset"),
    "ExperimentalSqlDataset": queried("ExperimentalSqlDataset"),
    "CSVDataset": rows_of("CSVDataset"),
    "CSVDatasetV2": rows_of("CSVDatasetV2"),
    "ExperimentalCSVDataset": rows_of("ExperimentalCSVDataset"),
    "DecodeProtoV2": decoded,
    "EncodeProto": encoded,
    "ImmutableConst": lambda g, p: g.ops.ImmutableConst(dtype="uint8", shape=[1], memory_region_name=p),
    "SentencepieceGetPieceSize": lambda g, p: g.ops.SentencepieceGetPieceSize(model_file=p),
    "SentencepiecePieceToId": lambda g, p: g.ops.SentencepiecePieceToId(strings(g, "x"), model_file=p),
    "SentencepieceIdToPiece": lambda g, p: g.ops.SentencepieceIdToPiece(numbers(g), model_file=p),
    "SentencepieceGetPieceType": lambda g, p: g.ops.SentencepieceGetPieceType(numbers(g), model_file=p),
    "SentencepieceEncodeDense": pieces_of("SentencepieceEncodeDense"),
    "SentencepieceEncodeSparse": pieces_of("SentencepieceEncodeSparse"),
    "SentencepieceDecode": lambda g, p: g.ops.SentencepieceDecode(
        g.constant([[1]], "int32"), numbers(g), model_file=p
    ),
}
WRITING: dict[str, Build] = {
    "WriteFile": lambda g, p: g.ops.WriteFile(p, "contents"),
    "SaveV2": lambda g, p: g.ops.SaveV2(p, strings(g, "x"), strings(g, ""), [g.constant(1.0)]),
    "Save": lambda g, p: g.ops.Save(p, strings(g, "x"), [g.constant(1.0)]),
    "SaveSlices": lambda g, p: g.ops.SaveSlices(p, strings(g, "x"), strings(g, ""), [g.constant(1.0)]),
    "MergeV2Checkpoints": lambda g, p: g.ops.MergeV2Checkpoints(strings(g, p), p),
    "CacheDataset": cached("CacheDataset"),
    "DatasetToTFRecord": records_written("DatasetToTFRecord"),
    "ExperimentalDatasetToTFRecord": records_written("ExperimentalDatasetToTFRecord"),
    "SaveDataset": saved("SaveDataset"),
    "SaveDatasetV2": elements_of(saved("SaveDatasetV2", output_types=["string"], output_shapes=[[]])),
    "SnapshotDataset": elements_of(first_snapshot),
    "SnapshotDatasetV2": elements_of(snapshot),
    "CacheDatasetV2": cached("CacheDatasetV2"),
    "CreateSummaryFileWriter": lambda g, p: g.ops.CreateSummaryFileWriter(g.ops.SummaryWriter(), p, 1, 1, ""),
}

#: Ops of modules that touch files which do not themselves: they name, count, or only hold.
HARMLESS = {
    *("IdentityReader", "IdentityReaderV2", "ShardedFilename", "ShardedFilespec"),
    *("ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2"),  # with each reader above
    *("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", "ReaderReset", "ReaderResetV2"),
    *("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2"),
    *("ReaderSerializeState", "ReaderSerializeStateV2", "ReaderRestoreState", "ReaderRestoreStateV2"),
    *("AllCandidateSampler", "ComputeAccidentalHits", "LearnedUnigramCandidateSampler"),
    *("LogUniformCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", "UniformCandidateSampler"),
    "SnapshotNestedDatasetReader",  # of datasets that are there
    *("Print", "PrintV2", "Timestamp"),  # PrintV2 writes to a file by name: tests/kernels/test_print_ops.py
    # These write to the file with which a writer was created.
    *("SummaryWriter", "FlushSummaryWriter", "CloseSummaryWriter", "ImportEvent", "WriteSummary"),
    *("WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary"),
    *("WriteGraphSummary", "WriteRawProtoSummary"),
}


async def refused(build: Build, path: Path, access: str) -> None:
    graph = fe.Graph()
    fetch = build(graph, str(path))
    with pytest.raises(PermissionDeniedError, match=f"not allowed: Config.file_access='{access}'"):
        async with fe.Session(graph, config=fe.Config(file_access=access)) as session:
            await session.run(fetch)


@pytest.mark.parametrize("op", sorted(READING))
async def test_nothing_is_read_where_nothing_is_allowed(op: str, tmp_path: Path) -> None:
    if not any(op in ops.split() for ops in OPS.values()):
        pytest.skip(f"{op} has no kernel")
    path = tmp_path / "file"
    path.write_text("contents\n")
    await refused(READING[op], path, "none")


@pytest.mark.parametrize("access", ["none", "read"])
@pytest.mark.parametrize("op", sorted(WRITING))
async def test_nothing_is_written_where_that_is_not_allowed(op: str, access: str, tmp_path: Path) -> None:
    await refused(WRITING[op], tmp_path / "new" / "file", access)
    assert os.listdir(tmp_path) == []


async def test_reading_is_enough_to_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("contents")
    graph = fe.Graph()
    async with fe.Session(graph, config=fe.Config(file_access="read")) as session:
        assert await session.run(READING["WholeFileReaderV2"](graph, str(path))) == b"contents"


def test_every_op_that_touches_files_is_told_here() -> None:
    """A kernel module that imports what checks access, or opens files, has all of its ops above."""
    assert touching_ops() - HARMLESS - READING.keys() - WRITING.keys() == set()


def test_every_op_that_touches_files_says_so_and_no_other() -> None:
    """The duties of `ir.duties.outward` are shown by no signature: here they are held against the kernels."""
    told = {op: registry()[op].traits for op in registry() if any(op in ops.split() for ops in OPS.values())}
    reads = {op for op, traits in told.items() if ReadsFiles in traits}
    writes = {op for op, traits in told.items() if WritesFiles in traits}
    assert reads >= READING.keys()
    assert writes >= WRITING.keys()
    assert (reads | writes) - READING.keys() - WRITING.keys() == {"PrintV2"}
    assert reads & WRITING.keys() == BOTH
    assert {op for op, traits in told.items() if CallsPython in traits} == {"PyFunc", "PyFuncStateless"}


#: What reads the files that it also writes.
BOTH = {
    *("CacheDataset", "CacheDatasetV2", "MergeV2Checkpoints"),
    *("SnapshotDataset", "SnapshotDatasetV2"),
}


#: What reaches other programs: modules, and what there is of it in `os`.
_OTHERS = {
    *("asyncio", "ftplib", "http", "multiprocessing", "pty", "requests", "select", "selectors", "signal"),
    *("smtplib", "socket", "socketserver", "ssl", "subprocess", "urllib.request", "webbrowser", "xmlrpc"),
    *("fork", "forkpty", "kill", "killpg", "popen", "posix_spawn", "spawnl", "spawnv", "system"),
    *("execl", "execle", "execv", "execve", "execvp", "execvpe"),
}


def test_nothing_that_runs_for_a_graph_reaches_other_programs() -> None:
    """No op has a duty of that kind because no kernel and no resource does it."""
    found = set()
    for folder in (KERNELS, ROOT / "flowengine" / "resources"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [str(node.module)]
                elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "os":
                    names = [node.attr]
                if {*names, *(each.partition(".")[0] for each in names)} & _OTHERS:
                    found.add(str(path.relative_to(ROOT)))
    assert found == set()


def test_the_environment_is_read_for_no_graph() -> None:
    """Settings of libraries are, by names that stand in the code, where a library is loaded."""
    found = set()
    for folder in (KERNELS, ROOT / "flowengine" / "resources"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                name = node.attr if isinstance(node, ast.Attribute) else ""
                name = name or getattr(node, "id", "")
                if name in {"environ", "environb", "getenv", "getenvb"}:
                    found.add(str(path.relative_to(ROOT)))
    assert found == SETTINGS


#: Which libraries compute, where they lie, on how many cores.
SETTINGS = {
    *("kernels/common/parallel.py", "kernels/cuda/compiling.py"),
    *("kernels/onednn/layers/winograd.py", "kernels/onednn/library.py"),
}


def touching_ops() -> set[str]:
    """The ops of modules that open files, import what checks access, or have a helper that does."""
    touching, imports = set[str](), dict[str, set[str]]()
    for path in KERNELS.rglob("*.py"):
        module = ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        imported = imports[module] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).removeprefix("flowengine.kernels."))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
                touching.add(module)
    touching |= {module for module, each in imports.items() if "common.file_access" in each}
    helpers = touching - OPS.keys()
    touching |= {module for module, each in imports.items() if each & helpers}
    # Every dataset can be given what opens files; which one uses it, is seen below.
    ops = {op for module in (touching & OPS.keys()) - {"data.datasets"} for op in OPS[module].split()}
    return ops | datasets_of_files()


#: What touches files by their paths: `core.files` does it for all that runs for a graph.
_BY_PATH = {
    *("access", "chmod", "chown", "link", "listdir", "lstat", "makedirs", "mkdir", "open", "readlink"),
    *("remove", "removedirs", "rename", "renames", "replace", "rmdir", "scandir", "stat", "symlink"),
    *("truncate", "unlink", "walk", "exists", "getsize", "isdir", "isfile", "islink", "lexists", "glob"),
    *("iglob", "memmap", "fromfile", "rmtree", "FileIO"),
}
_MODULES = {"os", "path", "io", "glob", "shutil", "np", "numpy", "Path"}

#: Where what a kernel has opened by `KernelContext.files` is mapped into memory; a library's own file; and
#: compiled modules, in a folder and by names that no graph has a word in.
ALONE = {"kernels/io/files.py", "kernels/onednn/library.py", "kernels/cuda/compiling.py"}


def test_nothing_that_runs_for_a_graph_opens_files_by_itself() -> None:
    """Not in kernels, and not in resources: only by `KernelContext.files`, or what was handed on of it."""
    found = set()
    for folder in (KERNELS, ROOT / "flowengine" / "resources"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                called = node.func if isinstance(node, ast.Call) else None
                named = isinstance(called, ast.Name) and called.id == "open"
                if isinstance(called, ast.Attribute) and called.attr in _BY_PATH:
                    of = called.value
                    named = (of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")) in _MODULES
                if named:
                    found.add(str(path.relative_to(ROOT)))
    assert found == ALONE


def datasets_of_files() -> set[str]:
    """The ops whose dataset is made in a module that opens files, or asks whether it may write them."""
    makers: set[str] = set()
    for path in DATASETS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if used & {"opener", "may_write"}:
            makers |= {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    found: set[str] = set()
    for path in (KERNELS / "data").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name) and value.id in makers:
                    found |= set(str(key.value).split())
    assert "TextLineDataset" in found
    return found
