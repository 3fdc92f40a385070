"""Tables as feeds: rows of CSV and Parquet files, and the rows that come of them."""

from __future__ import annotations

import csv
import io
import json
import math
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.feeding.sources import ValueTarget
from flowengine.cli.main import main
from flowengine.cli.tables import writing
from flowengine.cli.tables.columns import CellFault, converted
from flowengine.cli.tables.planning import ExamplesInput
from flowengine.cli.tables.reading import TableRows
from flowengine.core.dtypes import as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.saved_model.example_inputs import ExampleFeature

Output = pytest.CaptureFixture[str]


@pytest.fixture
def mixed(save: Callable[[fe.Graph], str]) -> str:
    """y = x + 1 with x (N, 2), `upper` of words (N), `total` a scalar, `half` of n (N) int32."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    words = graph.placeholder("string", [None], name="words")
    n = graph.placeholder("int32", [None], name="n")
    graph.ops.AddV2(x, 1.0, name="y")
    graph.ops.StringUpper(words, name="upper")
    graph.ops.Sum(x, np.array([0, 1], np.int32), name="total")
    graph.ops.FloorDiv(np.int32(12), n, name="parts")
    graph.ops.Reshape(x, np.array([-1, 2, 1], np.int32), name="deep")
    graph.ops.Greater(n, np.int32(2), name="many")
    return save(graph)


def table(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_columns_feed_the_inputs_of_their_names(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(
        tmp_path / "a.csv", "id,x.0,x.1,words,n", "7,1.5,2,abc,3", '8,-1,1e3,"d, ""e""",2', "", "9,0.1,,ü,1"
    )
    fetches = [f"--fetch={name}" for name in ("y", "upper", "parts", "deep", "many")]
    assert main(["run", mixed, "--feed", path, *fetches, "--batch-size", "2"]) == 0
    shown = capsys.readouterr()
    assert rows(shown.out) == [
        ["y.0", "y.1", "upper", "parts", "deep", "many"],
        ["2.5", "3.0", "ABC", "4", "[[1.5], [2.0]]", "true"],
        ["0.0", "1001.0", 'D, "E"', "6", "[[-1.0], [1000.0]]", "false"],
        ["1.1", "nan", "ü", "12", '[[0.1], ["NaN"]]', "false"],
    ]
    assert "columns that feed nothing: id" in shown.err
    assert "3 rows" in shown.err


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npz"])
def test_rows_go_into_a_file_with_their_inputs(ending: str, mixed: str, tmp_path: Path) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow, the extra tables, is not installed")
    path = table(tmp_path / "a.csv", "y,x.0,x.1,words", "p,1,2,a", "q,3,4,b")
    out = str(tmp_path / f"out{ending}")
    command = ["run", mixed, "--feed", path, "-y", "y", "-y", "upper", "-o", out, "--keep-inputs"]
    assert main(command) == 0
    if ending == ".npz":
        with np.load(out) as found:
            assert found["y_output"].tolist() == [[2, 3], [4, 5]]
            assert found["y"].tolist() == [b"p", b"q"]
            assert found["upper"].tolist() == [b"A", b"B"]
    elif ending == ".parquet":
        from pyarrow import parquet

        found = parquet.read_table(out).to_pydict()
        assert found["y_output"] == [[2, 3], [4, 5]]
        assert (found["y"], found["words"], found["upper"]) == (["p", "q"], ["a", "b"], ["A", "B"])
    else:
        delimiter = "\t" if ending == ".tsv" else ","
        lines = Path(out).read_text().splitlines()
        assert lines[0].split(delimiter) == ["y", "x.0", "x.1", "words", "y_output.0", "y_output.1", "upper"]
        assert lines[2].split(delimiter) == ["q", "3", "4", "b", "4.0", "5.0", "B"]
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".out")] == []
    assert main(command) == failure.USAGE  # it is there already


def test_a_parquet_file_feeds_its_types(mixed: str, tmp_path: Path, capsys: Output) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow, the extra tables, is not installed")
    from pyarrow import parquet

    path = str(tmp_path / "a.parquet")
    columns = {"x": [[1.0, 2.0], [3.0, 4.5]], "n": [3, 4], "words": ["a", None]}
    parquet.write_table(pyarrow.table(columns), path)
    assert main(["run", mixed, "--feed", path, "-y", "y", "-y", "parts", "-y", "upper"]) == 0
    assert rows(capsys.readouterr().out) == [
        ["y.0", "y.1", "parts", "upper"],
        ["2.0", "3.0", "4", "A"],
        ["4.0", "5.5", "3", ""],
    ]
    Path(path).write_bytes(b"PAR1")
    assert main(["run", mixed, "--feed", path, "-y", "y"]) == failure.BAD_FEED
    assert "cannot read it" in capsys.readouterr().err


def test_all_columns_feed_one_input(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", "width;height", "1;2", "3;4")
    assert main(["run", mixed, "--feed", f"x={path}", "-y", "y"]) == 0
    assert rows(capsys.readouterr().out)[1:] == [["2.0", "3.0"], ["4.0", "5.0"]]
    path = table(tmp_path / "b.csv", "a,b,c", "1,2,3")
    assert main(["run", mixed, "--feed", f"x={path}", "-y", "y"]) == failure.BAD_FEED
    assert (
        "the table's 3 columns (a, b, c) do not make up rows for a float32 [?,2]" in capsys.readouterr().err
    )
    assert main(["run", mixed, "--feed", path, "-y", "y"]) == failure.BAD_FEED
    assert (
        "no column is called as an input (columns: a, b, c; inputs: x, words, n)" in capsys.readouterr().err
    )


BAD_ROWS = ("words,n,other", "a,1,1", "b,0,1", "c,x,1", "d,4", "e,3,1", "f,0,1")


@pytest.mark.parametrize("size", [1, 2, 4, 256])
def test_rows_that_fail_are_told_and_left_out(size: int, mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", *BAD_ROWS)
    command = ["run", mixed, "--feed", path, "-y", "parts", "-y", "upper", "--batch-size", str(size)]
    assert main([*command, "--keep-going"]) == failure.STEP_ERROR
    shown = capsys.readouterr()
    assert rows(shown.out) == [["parts", "upper"], ["12", "A"], ["4", "E"]]
    assert f"row 2 of {path} is left out: InvalidArgumentError" in shown.err
    assert f"row 3 of {path} is left out: column 'n': 'x' is no int32" in shown.err
    assert f"row 4 of {path} is left out: it has 2 cells for 3 columns" in shown.err
    assert f"row 6 of {path} is left out: InvalidArgumentError" in shown.err
    assert "4 of 6 rows failed" in shown.err


def test_without_keep_going_the_first_row_that_fails_ends_it(
    mixed: str, tmp_path: Path, capsys: Output
) -> None:
    path, out = table(tmp_path / "a.csv", "n", "1", "2", "0", "3", "0"), tmp_path / "out.csv"
    assert main(["run", mixed, "--feed", path, "-y", "parts", "-o", str(out)]) == failure.STEP_ERROR
    told = capsys.readouterr().err
    assert f"row 3 of {path}: InvalidArgumentError" in told
    assert "--keep-going" in told
    assert not out.exists()


def test_when_all_rows_fail_nothing_is_kept(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path, out = table(tmp_path / "a.csv", "n", *["0"] * 30), tmp_path / "out.csv"
    command = ["run", mixed, "--feed", path, "-y", "parts", "-o", str(out), "--keep-going"]
    assert main(command) == failure.STEP_ERROR
    told = capsys.readouterr().err
    assert "all 30 rows failed" in told
    assert told.count("is left out") == 10
    assert not out.exists()


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((), "no first line that names its columns"),
        (("1,2", "3,4"), "its first line is one of numbers"),
        (("n,n", "3,4"), "two columns are called 'n'"),
    ],
)
def test_what_is_no_table(
    lines: Sequence[str], told: str, mixed: str, tmp_path: Path, capsys: Output
) -> None:
    path = table(tmp_path / "a.csv", *lines)
    assert main(["run", mixed, "--feed", path, "-y", "parts"]) == failure.BAD_FEED
    assert told in capsys.readouterr().err


def test_what_does_not_go_with_a_table(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", "n", "1")
    for options, told in (
        (["--steps", "3"], "--steps cannot go with a table"),
        (["--json"], "--json cannot go with a table"),
        (["-o", str(tmp_path / "out.npy")], "rows of a table go into a .csv"),
        (["--feed", path], "only one table can be fed"),
    ):
        assert main(["run", mixed, "--feed", path, "-y", "parts", *options]) == failure.USAGE
        assert told in capsys.readouterr().err
    assert main(["run", mixed, "--feed", "n=[1]", "-y", "parts", "--keep-going"]) == failure.USAGE
    assert main(["run", mixed, "--feed", str(tmp_path / "no.csv"), "-y", "parts"]) == failure.BAD_FEED
    assert main(["run", mixed, "--feed", path, "-y", "y"]) == failure.BAD_FEED
    assert "nothing was fed to 'x'" in capsys.readouterr().err


def test_an_output_without_rows_is_told(linear: str, mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", "x.0,x.1", "1,2", "3,4", "5,6")
    assert main(["run", mixed, "--feed", path, "-y", "total"]) == failure.STEP_ERROR
    assert "total has the shape [] for 3 rows" in capsys.readouterr().err


def test_a_batch_of_fixed_size_is_filled_up(
    save: Callable[[fe.Graph], str], tmp_path: Path, capsys: Output
) -> None:
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [2, 1], name="x"), name="y")
    path, file = save(graph), table(tmp_path / "a.csv", "x", "1", "2", "3")
    assert main(["run", path, "--feed", file, "-y", "y"]) == 0
    assert rows(capsys.readouterr().out) == [["y"], ["-1.0"], ["-2.0"], ["-3.0"]]
    assert main(["run", path, "--feed", file, "-y", "y", "--batch-size", "3"]) == failure.BAD_FEED
    assert "2 rows at a time" in capsys.readouterr().err


def test_inputs_without_an_axis_for_rows_take_one_at_a_time(
    save: Callable[[fe.Graph], str], tmp_path: Path, capsys: Output
) -> None:
    graph = fe.Graph()
    a, b = (graph.placeholder("int64", [], name=name) for name in "ab")
    graph.ops.Pack([a, b], name="pair")
    path, file = save(graph), table(tmp_path / "a.csv", "a,b", "1,2", "3,4.0")
    assert main(["run", path, "--feed", file, "-y", "pair"]) == 0
    assert rows(capsys.readouterr().out) == [["pair.0", "pair.1"], ["1", "2"], ["3", "4"]]


def test_columns_become_the_features_of_examples(tmp_path: Path, capsys: Output) -> None:
    """An Estimator's export of TensorFlow 1.15: `a` is a number, `word` one of a vocabulary."""
    import zipfile

    place = Path(__file__).parents[1] / "saved_model" / "recorded" / "estimator.zip"
    with zipfile.ZipFile(place) as packed:
        packed.extractall(tmp_path / "model")
    model = str(tmp_path / "model")
    values: Any = json.loads((tmp_path / "model" / "values.json").read_text())
    path = table(tmp_path / "a.csv", "word,a", "v,1.5", ",1.5", "v,", "w,-2e3")
    for signature in ("predict", "serving_default"):
        command = ["run", model, "--signature", signature, "--feed", path, "--keep-going"]
        assert main(command) == failure.STEP_ERROR
        shown = capsys.readouterr()
        assert f"row 3 of {path} is left out: column 'a': it is empty" in shown.err
        found = rows(shown.out)
        assert len(found) == 4
        if signature == "predict":
            at = found[0].index("logits.0")
            assert values is not None
            first = [float(cell) for cell in found[1][at : at + 3]]
            assert all(map(math.isfinite, first))
    assert main(["run", model, "--feed", table(tmp_path / "b.csv", "z", "1")]) == failure.BAD_FEED
    assert "its examples have the features" in capsys.readouterr().err


def test_the_row_of_an_example_that_fails_is_named_though_cells_before_it_are_empty() -> None:
    feature = ExampleFeature(as_dtype("int64"), None, required=False)
    target = ValueTarget("rows:0", as_dtype("string"), TensorShape([None]), "")
    examples = ExamplesInput(target, ["n"], {"n": feature})
    with pytest.raises(CellFault, match="'x'") as caught:
        examples.value(TableRows(range(1, 5), {"n": ["", "7", "", "x"]}))
    assert caught.value.index == 3


def test_a_group_of_rows_without_values_has_the_type_of_those_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow, the extra tables, is not installed")
    from pyarrow import parquet

    monkeypatch.setattr(writing, "_GROUP_ROWS", 1)
    with writing.opened_sink(str(tmp_path / "a.parquet")) as sink:
        for cell, number in (("x", 1), (None, 2), ("y", 3)):
            sink.write({"word": [cell]}, {"n": np.array([number])})
    found = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert found == {"word": ["x", None, "y"], "n": [1, 2, 3]}


@pytest.mark.parametrize("rows_before", [1, 3000])
def test_outputs_whose_width_changes_between_batches_are_refused(
    rows_before: int, save: Callable[[fe.Graph], str], tmp_path: Path, capsys: Output
) -> None:
    graph = fe.Graph()
    x, n = graph.placeholder("float32", [None, 3], name="x"), graph.placeholder("int32", [None], name="n")
    width = graph.ops.Max(n, np.array([0], np.int32))
    sizes = graph.ops.Pack([graph.constant(-1), width], axis=0)
    graph.ops.Slice(x, np.array([0, 0], np.int32), sizes, name="y")
    path = table(tmp_path / "a.csv", "x.0,x.1,x.2,n", *["1,2,3,2"] * rows_before, "4,5,6,3")
    assert main(["run", save(graph), "--feed", path, "-y", "y", "--batch-size", "1"]) == failure.STEP_ERROR
    shown = capsys.readouterr()
    assert f"y has the shape [3] for row {rows_before + 1} of {path}, but [2] for rows before it" in shown.err
    assert {len(row) for row in rows(shown.out)} == {2}


def test_an_input_that_is_fed_by_itself_takes_no_columns(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", "words,n", "a,1", "b,2")
    command = ["run", mixed, "--feed", path, "--feed", "n=[6, 4]", "-y", "upper", "-y", "parts"]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert rows(shown.out) == [["upper", "parts"], ["A", "2"], ["B", "3"]]
    assert "columns that feed nothing: n" in shown.err


def test_a_semicolon_in_a_name_does_not_part_columns(mixed: str, tmp_path: Path, capsys: Output) -> None:
    path = table(tmp_path / "a.csv", "words,size; in cm,n", "a,4,1", "b,5,2")
    assert main(["run", mixed, "--feed", path, "-y", "upper", "-y", "parts"]) == 0
    assert rows(capsys.readouterr().out) == [["upper", "parts"], ["A", "12"], ["B", "6"]]


@given(
    st.lists(
        st.one_of(st.floats(width=32).map(str), st.integers(-9, 9).map(str), st.sampled_from(["", " 1 "])),
        min_size=1,
    )
)
def test_cells_are_pythons_numbers(cells: list[str]) -> None:
    found = converted("c", cells, as_dtype("float32"))
    wanted = np.array([float(cell) if cell else math.nan for cell in cells]).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("cells", "dtype", "index", "told"),
    [
        (["1", "2.5"], "int32", 1, "2.5 is no int32"),
        (["1", "300", "2"], "uint8", 1, "300 is no uint8"),
        (["1", "1e30"], "int64", 1, "is no int64"),
        (["1", "9" * 30], "int64", 1, "is no int64"),
        (["1_0"], "int32", 0, "'1_0' is no int32"),
        (["true", "2"], "bool", 1, "2 is no bool"),
        (["1", ""], "int32", 1, "it is empty, and int32 has no value for that"),
        (["1", "x"], "float32", 1, "'x' is no float32"),
        (["[1, 2]", "[3]"], "float32", 1, "its shape is [1], and before it [2]"),
        ([1.5, None], "int32", 1, "it is empty"),
    ],
)
def test_a_cell_that_does_not_fit_is_told(cells: list[Any], dtype: str, index: int, told: str) -> None:
    with pytest.raises(CellFault) as caught:
        converted("c", cells, as_dtype(dtype))
    assert caught.value.index == index
    assert told in str(caught.value)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(linear: str, tmp_path: Path) -> None:
    path, out = tmp_path / "a.csv", str(tmp_path / "out.csv")
    cells = ",".join(["0.123456789"] * 2)
    path.write_text("x.0,x.1\n" + f"{cells}\n" * 1000)
    assert main(["run", linear, "--feed", str(path), "-y", "y", "-o", out]) == 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with path.open("a") as file:
        for _ in range(100):
            file.write(f"{cells}\n" * 1000)
    assert main(["run", linear, "--feed", str(path), "-y", "y", "-o", out, "--force"]) == 0
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(Path(out).read_text().splitlines()) == 101_001
    assert grown < 2_000, f"{grown} kB more for {path.stat().st_size // 1000} kB of rows"
