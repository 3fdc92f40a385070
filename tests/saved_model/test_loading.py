"""SavedModels of TensorFlow 1 and 2 are loaded and called; see `record_models.py` for what they are."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from flowengine.saved_model.reading import read_saved_model

RECORDED = Path(__file__).parent / "recorded"
MODELS = sorted(path.stem for path in RECORDED.glob("*.zip"))


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], Path]:
    def unpack(name: str) -> Path:
        folder = tmp_path / name
        with zipfile.ZipFile(RECORDED / f"{name}.zip") as packed:
            packed.extractall(folder)
        return folder

    return unpack


def as_fed(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("latin-1")
    return [as_fed(each) for each in value] if isinstance(value, list) else value


def calls_of(folder: Path) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = json.loads((folder / "values.json").read_text())
    return calls


def check(call: dict[str, Any], outputs: dict[str, Any]) -> None:
    assert outputs.keys() == call["outputs"].keys()
    for name, wanted in call["outputs"].items():
        got = np.asarray(outputs[name])
        if got.dtype.kind in "SO":
            assert got.tolist() == as_fed(wanted)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
async def test_signatures_give_what_tensorflow_gave(name: str, unpacked: Callable[[str], Path]) -> None:
    folder = unpacked(name)
    async with await fe.saved_model.load(folder) as model:
        for call in calls_of(folder):
            signature = model.signatures[call["signature"]]
            outputs = await signature(**{key: as_fed(value) for key, value in call["inputs"].items()})
            check(call, outputs)
            for key, value in outputs.items():
                told = signature.outputs[key]
                assert told.shape.is_compatible_with(fe.TensorShape(np.shape(value)))
                if told.dtype.name != "string":
                    assert np.asarray(value).dtype == told.dtype.as_numpy_dtype


def test_a_blocking_model(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("simple")
    with fe.blocking.load_saved_model(folder) as model:
        call = calls_of(folder)[0]
        check(call, model(call["inputs"]["x"]))
        assert model.variables["b"].read().tolist() == [1, 1, 1]
    with pytest.raises(FailedPreconditionError, match="closed"):
        model(call["inputs"]["x"])


def test_a_model_and_its_signatures_show_themselves_in_a_line(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("simple")
    with fe.blocking.load_saved_model(folder) as model:
        signature = model.signatures["serving_default"]
        assert repr(signature) == f"<ModelSignature 'serving_default' ({signature.facts.sides()})>"
        (name, given), *_ = signature.inputs.items()
        assert repr(given) == f"<SignatureTensor {given.dtype.name} {given.shape}>"
        assert repr(model) == f"<Model '{folder}' with {', '.join(model.signatures)}>"
        shown = [repr(model), repr(model.signatures), repr(model.saved), repr(signature.facts)]
        assert all(len(each) < 400 and "\n" not in each for each in shown)
        assert f"input {name}</th>" in signature._repr_html_()
        assert f"{given}</td>" in signature._repr_html_()
        assert "signature serving_default</th>" in model._repr_html_()
        assert (
            "<script>"
            not in dataclasses.replace(
                signature, facts=dataclasses.replace(signature.facts, name="<script>")
            )._repr_html_()
        )


@pytest.mark.parametrize("library", [fe.asyncio, fe.anyio])
def test_an_asyncio_model(library: Any, unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("keras_dense")

    async def main() -> None:
        async with await library.load_saved_model(folder) as model:
            call = calls_of(folder)[0]
            check(call, await model.signatures["serving_default"](**call["inputs"]))

    asyncio.run(main())


async def test_an_anyio_model_in_a_trio_program(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("simple")
    async with await fe.anyio.load_saved_model(folder, tags="serve") as model:
        call = calls_of(folder)[0]
        check(call, await model(**call["inputs"]))


async def test_a_variable_of_two_names_is_one_and_a_count_of_saves_is_restored(
    unpacked: Callable[[str], Path],
) -> None:
    async with await fe.saved_model.load(unpacked("checkpoint")) as model:
        found = {name: (await each.read()).tolist() for name, each in model.variables.items()}
        assert found == {"scale": [1, 2], "step": 7, "save_counter": 1}
        await model.functions["model.scaled"]([0.0, 0.0])
        assert (await model.variables["scale"].read()).tolist() == [2, 3]


async def test_functions_are_called_as_they_were_in_python(unpacked: Callable[[str], Path]) -> None:
    async with await fe.saved_model.load(unpacked("module")) as model:
        assert list(model.functions) == ["add", "look"]
        add = model.functions["add"]
        assert (await add([1.0, 1.0])).tolist() == [2, 3]
        assert (await add([1.0, 1.0], True)).tolist() == [4, 6]
        assert (await add(x=[1.0, 1.0], twice=True)).tolist() == [4, 6]
        found = await model.functions["look"](["y", "?"])
        assert found["ids"].tolist() == [1, -1]
        # The function and the signature count in the same variable.
        assert found["count"] == 1
        assert (await model.signatures["look"]([b"z"]))["count"] == 2
        assert await model.variables["count"].read() == 2
        with pytest.raises(InvalidArgumentError, match=r"'add' was not traced.*\(float32 \[2\], True\)"):
            add([1.0, 1.0, 1.0])
        with pytest.raises(NotFoundError, match=r"no function 'sub' \(it has: add, look\)"):
            model.functions["sub"]


async def test_variables_have_the_names_of_their_objects(unpacked: Callable[[str], Path]) -> None:
    async with await fe.saved_model.load(unpacked("module")) as model:
        assert {name: (each.trainable, each.shape.as_list()) for name, each in model.variables.items()} == {
            "scale": (True, [2]),
            "count": (False, []),
        }
        assert (await model.variables["scale"].read()).tolist() == [1, 2]
    async with await fe.saved_model.load(unpacked("keras_dense")) as model:
        assert sorted(model.variables) == ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel"]
        assert (await model.variables["dense/bias"].read()).tolist() == [0, 0, 0]


async def test_tags_choose_the_graph(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("hub")
    plain = calls_of(folder)[0]["outputs"]["default"]
    async with await fe.saved_model.load(folder, tags="train") as model:
        assert model.saved.tags == ("train",)
        values = (await model.signatures["default"](calls_of(folder)[0]["inputs"]["text"]))["default"]
        assert values.tolist() == (2 * np.array(plain)).tolist()
    async with await fe.saved_model.load(folder) as model:  # none is for serving: that without tags
        assert model.saved.tags == ()
        check(calls_of(folder)[0], await model(calls_of(folder)[0]["inputs"]["text"]))
    with pytest.raises(
        NotFoundError, match=r"no graph with the tag 'serve' \(its graphs' tags: train; \(none\)\)"
    ):
        await fe.saved_model.load(folder, tags="serve")
    with pytest.raises(NotFoundError, match=r"no graph with the tags 'gpu', 'train'"):
        await fe.saved_model.load(folder, tags=["train", "gpu"])


async def test_what_is_called_wrongly_is_told(unpacked: Callable[[str], Path]) -> None:
    async with await fe.saved_model.load(unpacked("simple")) as model:
        signature = model.signatures["serving_default"]
        with pytest.raises(
            InvalidArgumentError,
            match=r"\(x float32 \[\?,4\] -> y float32 \[\?,3\]\): it has no input 'z'; input 'x'",
        ):
            signature(z=1)
        with pytest.raises(NotFoundError, match=r"no signature 'predict' \(it has: serving_default\)"):
            model.signatures["predict"]
        with pytest.raises(
            InvalidArgumentError, match="has no training node: it was saved without training="
        ):
            model.train("serving_default", x=[[0.0] * 4])
        with pytest.raises(TypeError, match="async with"), model:
            pass


async def test_a_damaged_model_is_refused_and_leaves_nothing_open(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("simple")
    (folder / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(NotFoundError, match="variables"):
        await fe.saved_model.load(folder)
    with pytest.raises(PermissionDeniedError):
        await fe.saved_model.load(unpacked("simple"), config=fe.Config(file_access="none"))
    with pytest.raises(NotFoundError, match=r"saved_model\.pb"):
        await fe.saved_model.load(folder / "variables")
    content = (folder / "saved_model.pb").read_bytes()
    (folder / "saved_model.pb").write_bytes(content[:-100])
    with pytest.raises(InvalidArgumentError, match="are no SavedModel, or they are cut off"):
        read_saved_model(folder)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89HDF\r\n\x1a\n", "is a HDF5 file, .*export"),
        (b"PK\x03\x04 and more", r"is a zip archive, as Keras' \.keras files are: .*export"),
        (b"", "holds no SavedModel; fe.Graph.load reads a GraphDef"),
    ],
    ids=["h5", "keras", "frozen"],
)
async def test_another_file_is_told_with_what_helps(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "model"
    graph = fe.Graph()
    graph.constant(1.0, name="c")
    file.write_bytes(content or graph.to_graph_def().SerializeToString())
    with pytest.raises(InvalidArgumentError, match=f"model {told}"):
        await fe.saved_model.load(file)
    if content:
        with pytest.raises(InvalidArgumentError, match=told.removeprefix("is ")):
            fe.Graph.load(file)


async def test_a_saver_tells_of_a_checkpoint_by_objects(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("keras_dense")
    graph = fe.Graph.load(folder)
    async with fe.Session(graph) as session:
        with pytest.raises(NotFoundError, match=r"names of objects.*fe\.saved_model\.load"):
            await fe.train.Saver().restore(session, folder)


def test_an_asset_outside_of_the_directory_is_refused(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("hub")
    file = folder / "saved_model.pb"
    content = file.read_bytes()
    assert content.count(b"words.txt") >= 2
    file.write_bytes(content.replace(b"\x12\x09words.txt", b"\x12\x09../../wds"))
    with pytest.raises(InvalidArgumentError, match="not in its assets/"):
        read_saved_model(folder, "train")


@pytest.mark.parametrize("name", ["tp_half_plus_two", "tp_serving_counter", "savedmodel_keras_lstm"])
async def test_the_zoo_s_models_by_their_signatures(name: str, shared: Path) -> None:
    """The values of the zoo's runs, by the signature that has their tensors and nothing else."""
    folder = shared / "zoo" / "open" / name
    case = json.loads((folder / "case.json").read_text())
    async with await fe.saved_model.load(folder) as model:
        compared = 0
        for run in case["runs"]:
            found = signature_for(model, set(run["feeds"]), set(run["fetches"]))
            if found is None:
                continue
            fed = {key: recorded(folder, run["feeds"][each.tensors[0]]) for key, each in found.inputs.items()}
            outputs = await found.call(fed)
            for fetch, wanted in zip(run["fetches"], run["expect"], strict=True):
                key = next(key for key, each in found.outputs.items() if each.tensors[0] == fetch)
                got = np.asarray(outputs[key])
                value = recorded(folder, wanted["value"])
                np.testing.assert_allclose(got, value, wanted.get("rtol", 0), wanted.get("atol", 0))
                compared += 1
        assert compared


def signature_for(model: Any, feeds: set[str], fetches: set[str]) -> Any:
    for each in model.signatures.values():
        if {t.tensors[0] for t in each.inputs.values()} == feeds and {
            t.tensors[0] for t in each.outputs.values()
        } == fetches:
            return each
    return None


def recorded(folder: Path, value: dict[str, Any]) -> Any:
    return np.load(folder / value["npy"])


@pytest.mark.parametrize("name", ["simple", "keras_dense", "estimator"])
async def test_variables_that_were_left_behind_are_missed_at_once(
    name: str, unpacked: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpacked(name)
    missing = folder / "variables" / "variables.index"
    missing.unlink()
    with pytest.raises(NotFoundError) as caught:
        await fe.saved_model.load(folder)
    assert str(missing) in caught.value.message
    assert read_saved_model(folder).checkpoint is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([[1.0, 2.0, 3.0]], "of shape"),
        ("text", "strings"),
        ([[1.0, 2.0], [3.0]], "rows of different lengths"),
    ],
)
async def test_an_input_that_does_not_fit_is_named_as_the_caller_does(
    value: Any, told: str, unpacked: Callable[[str], Path]
) -> None:
    folder = unpacked("keras_dense")
    async with await fe.saved_model.load(folder) as model:
        ((name, tensor),) = model.signature.inputs.items()
        with pytest.raises(InvalidArgumentError) as caught:
            await model.signature(**{name: value})
    assert f"for input '{name}'" in str(caught.value)
    assert told in str(caught.value)
    assert tensor.tensors[0] not in str(caught.value)


def test_so_it_is_in_a_blocking_program(unpacked: Callable[[str], Path]) -> None:
    with fe.blocking.load_saved_model(unpacked("keras_dense")) as model:
        (name,) = model.signature.inputs
        with pytest.raises(InvalidArgumentError, match=f"for input '{name}'"):
            model.signature(**{name: "text"})
