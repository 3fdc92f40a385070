"""Rows of CSV files, as TensorFlow's datasets give them; where quotes are out of place, line by line."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError
from flowengine.resources.data.csv_files import csv_rows

N, F, S, L, D = dtypes.int32, dtypes.float32, dtypes.string, dtypes.int64, dtypes.float64
#: What stands for an InvalidArgumentError of a row.
BAD = "InvalidArgumentError"


async def rows_of(
    path: Path | Sequence[Path],
    types: Sequence[fe.DType],
    defaults: Sequence[Any],
    *,
    op: str = "CSVDataset",
    compression: bytes = b"",
    header: bool = False,
    delimiter: bytes = b",",
    quotes: bool = True,
    na: bytes = b"",
    select: Sequence[int] = (),
    exclude: Sequence[int] = (),
    buffer_size: int = 4096,
) -> list[Any]:
    """All rows, an error by its class."""
    graph = fe.Graph()
    about: dict[str, Any] = {
        "output_types": list(types),
        "output_shapes": [fe.TensorShape([])] * len(types),
    }
    paths = [path] if isinstance(path, Path) else path
    inputs = [
        graph.constant(np.array([str(each).encode() for each in paths], object), S),
        graph.constant(compression),
        graph.constant(np.int64(buffer_size)),
        graph.constant(np.bool_(header)),
        graph.constant(delimiter),
        graph.constant(np.bool_(quotes)),
        graph.constant(na),
        graph.constant(np.array(select, np.int64)),
        [
            graph.constant(np.array(default, object if dtype is S else dtype.as_numpy_dtype), dtype)
            for default, dtype in zip(defaults, types, strict=True)
        ],
    ]
    if op == "CSVDatasetV2":
        inputs.append(graph.constant(np.array(exclude, np.int64)))
    dataset = getattr(graph.ops, op)(*inputs, output_shapes=about["output_shapes"])
    iterator = graph.ops.IteratorV2(shared_name="", container="", **about)
    begin = graph.ops.MakeIterator(dataset, iterator)
    following = graph.ops.IteratorGetNext(iterator, **about)
    found: list[Any] = []
    async with fe.Session(graph) as session:
        await session.run([], targets=[begin])
        while True:
            try:
                values = await session.run(list(following))
            except OpError as error:
                name = type(error).__name__
                if name == "OutOfRangeError":
                    return found
                found.append(name)
            else:
                for value, dtype in zip(values, types, strict=True):
                    assert dtype is S or value.dtype == dtype.as_numpy_dtype
                found.append([np.asarray(value).item() for value in values])


#: name: contents, types, defaults, settings, rows; what TensorFlow 1.15 and 2.21 give, both the same.
CASES: dict[str, tuple[bytes, Sequence[fe.DType], Sequence[Any], dict[str, Any], list[Any]]] = {
    "defaults": (
        b"1,2.5,a\n2,,b\n3,4,\n",
        [N, F, S],
        [[], [9.0], [b"d"]],
        {},
        [[1, 2.5, b"a"], [2, 9.0, b"b"], [3, 4.0, b"d"]],
    ),
    "header and empty line": (
        b"h1,h2\n1,2\n\n3,4",
        [N, N],
        [[0], [0]],
        {"header": True},
        [[1, 2], BAD, [3, 4]],
    ),
    "quotes": (
        b'1,"a,""b""\nc"\r\n2,x\r\n3,"y"',
        [N, S],
        [[0], [b""]],
        {},
        [[1, b'a,"b"\nc'], [2, b"x"], [3, b"y"]],
    ),
    "numbers of fields": (
        b"1,2\n1\n1,2,3\n5,6\n",
        [N, N],
        [[0], [0]],
        {},
        [[1, 2], BAD, BAD, [5, 6]],
    ),
    "selected": (
        b"1,2,3\n4,5,6\n7\n",
        [N, N],
        [[0], [0]],
        {"select": (0, 2)},
        [[1, 3], [4, 6], BAD],
    ),
    "no numbers": (b"1,x\nz,2\n3,4\n", [N, N], [[0], [0]], {}, [BAD, BAD, [3, 4]]),
    "required": (b",\nNA,1\n", [N, N], [[], [7]], {"na": b"NA"}, [BAD, BAD]),
    "quotes are text": (b'"1",2\n', [S, S], [[], []], {"quotes": False}, [[b'"1"', b"2"]]),
    "delimiter": (b"1;2\n", [L, D], [[], []], {"delimiter": b";"}, [[1, 2.0]]),
    "compressed": (gzip.compress(b"1,2\n"), [L, D], [[], []], {"compression": b"GZIP"}, [[1, 2.0]]),
    "carriage returns": (b"a\rb\rc\n", [S], [[]], {}, [[b"a"], [b"b"], [b"c"]]),
    "quote at the end is missing": (b'"a\n', [S], [[]], {}, [BAD]),
    "no end of line": (b'"a"', [S], [[]], {}, [[b"a"]]),
    "empty last field": (b"a,", [S, S], [[b"k"], [b"m"]], {}, [[b"a", b"m"]]),
    "empty": (b"", [S], [[]], {}, []),
    "no header": (b"", [S], [[]], {"header": True}, [BAD]),
    "only a header": (b"h", [S], [[]], {"header": True}, []),
    "header in quotes": (b'"a\nb",c\n1,2\n', [S, S], [[], []], {"header": True}, [[b"1", b"2"]]),
    "empty lines": (b"\n\n1\n", [S], [[b"e"]], {}, [[b"e"], [b"e"], [b"1"]]),
    "empty lines of two": (b"\n\n1\n", [S, S], [[b"e"], [b"k"]], {}, [BAD, BAD, BAD]),
    "white space": (b" 1, 2 \n1.5,3\n", [N, F], [[], []], {}, [[1, 2.0], BAD]),
    "excluded": (
        b"1,2,3\n4,5,6\n7\n",
        [N, N],
        [[0], [0]],
        {"op": "CSVDatasetV2", "exclude": (1,)},
        [[1, 3], [4, 6], BAD],
    ),
    "none excluded": (b"1,2,3\n4,5\n", [N, N], [[0], [0]], {"op": "CSVDatasetV2"}, [BAD, [4, 5]]),
    "quote within a field": (
        b'1,a"b\n2,x\n',
        [N, S],
        [[0], [b""]],
        {"op": "ExperimentalCSVDataset"},
        [BAD, [2, b"x"]],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_rows_are_those_of_tensorflow(tmp_path: Path, name: str) -> None:
    data, types, defaults, settings, expected = CASES[name]
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    assert await rows_of(path, types, defaults, **settings) == expected


async def test_a_line_with_misplaced_quotes_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'"3"z,y\n4,"q"\n')
    assert await rows_of(path, [N, S], [[], []]) == [BAD, [4, b"q"]]


async def test_each_file_has_a_header(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "none", "b")]
    paths[0].write_bytes(b"h\n1\n2")
    paths[2].write_bytes(b"h\n3\n")
    found = await rows_of(paths, [N], [[]], header=True)
    assert found == [[1], [2], NotFoundError.__name__, [3]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delimiter": b";;"}, "only 1 char"),
        ({"select": (1, 0)}, "select_cols should be strictly increasing"),
        ({"select": (0,)}, "match output size"),
        ({"compression": b"XX"}, "compression 'XX'"),
        ({"buffer_size": 0}, "buffer_size"),
        ({"op": "CSVDatasetV2", "exclude": (2, 1)}, "exclude_cols should be strictly increasing"),
        ({"op": "CSVDatasetV2", "exclude": (1,), "select": (0, 1)}, "Either"),
    ],
)
async def test_settings_that_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2\n")
    with pytest.raises(InvalidArgumentError, match=message):
        await rows_of(path, [L, D], [[], []], **settings)


FIELD = st.text(alphabet='ab,"\r\n', max_size=5)


@given(st.lists(st.lists(FIELD, min_size=2, max_size=3), max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_rows_that_python_has_written(table: list[list[str]], end: str) -> None:
    """Whatever pieces a file is read in, each row comes out as it went in."""
    file = io.StringIO()
    csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(table)
    data = file.getvalue().encode()
    rows: list[bytes] = []
    for piece in (1, 3, 1 << 20):
        source = _Pieces(data, piece)
        rows = [row for block in csv_rows(source, b",", has_quotes=True) for (row,) in block]
        read = [next(csv.reader(io.StringIO(row.decode(), newline=""))) for row in rows]
        assert read == table


class _Pieces:
    """Gives so many bytes at a time at most."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, count: int, /) -> bytes:
        return self._file.read(min(count, self._most))
