"""Many records of CSV at once give what each gives by itself, or its error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.io import csv_columns
from flowengine.kernels.io.decoding import decode_csv

TYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)
NUMBERS = st.one_of(
    st.integers(-(2**33), 2**33).map(str),
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.integers(2**62, 2**65).map(str),
    st.floats(width=32).map(repr),
    st.floats().map(lambda number: f"{number:.3e}"),
    st.sampled_from(["", "+4", " 7", "1_0", "0x1f", ".5", "5.", "-", "--1", "1-", "1e400", "NA", "-0"]),
)
TEXTS = st.text(st.sampled_from('ab ,;"\n\r'), max_size=4)
FIELDS = st.one_of(NUMBERS, st.sampled_from(["1", "22", "-3"]), TEXTS)


def strings(values: list[bytes]) -> Any:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def same(given: Any, wanted: Any) -> None:
    assert given.dtype == wanted.dtype
    np.testing.assert_array_equal(given, wanted)


def decoded(records: list[bytes], types: tuple[Any, ...], **attrs: Any) -> tuple[Any, ...]:
    defaults = [
        strings([b"none"]) if each is dtypes.string else np.ones(1, each.as_numpy_dtype) for each in types
    ]
    if attrs.pop("required", False):
        defaults = [each[:0] for each in defaults]
    said = {"field_delim": b",", "use_quote_delim": True, "na_value": b"NA", "select_cols": (), **attrs}
    found = decode_csv(strings(records), tuple(defaults), OUT_TYPE=types, **said)
    return found if isinstance(found, tuple) else (found,)


@given(
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=3).map(tuple),
    st.lists(st.lists(FIELDS, min_size=1, max_size=3), min_size=8, max_size=12),
    st.sampled_from([b",", b";"]),
    st.sampled_from([b"NA", b""]),
    st.booleans(),
    st.booleans(),
)
@example((dtypes.int64,), [["1"]] * 7 + [[str(2**63)]], b",", b"", True, False)
@example((dtypes.int64,), [["1"]] * 7 + [[str(-(2**63))]], b",", b"", True, False)
@example((dtypes.int32,), [["-1"]] * 7 + [[str(2**31)]], b",", b"", True, False)
@example((dtypes.int32,), [["1"]] * 7 + [[""], ["-"]], b",", b"", True, False)
@example((dtypes.int32, dtypes.string), [["1", "b"]] * 8 + [["", "c"]], b",", b"", True, True)
@example((dtypes.int32, dtypes.string), [["1,2", "b"]] * 9, b";", b"NA", True, False)
@example((dtypes.float32,), [["1e300"]] * 9, b",", b"NA", True, True)
@example((dtypes.string, dtypes.string), [["a", "b", "c"], ["d"]] * 4, b",", b"NA", True, False)
def test_records_together(
    types: tuple[Any, ...], rows: list[list[str]], delimiter: bytes, na: bytes, quotes: bool, required: bool
) -> None:
    records = [delimiter.decode().join(row).encode() for row in rows]
    said = {"field_delim": delimiter, "use_quote_delim": quotes, "required": required, "na_value": na}
    alone: list[tuple[Any, ...]] = []
    for record in records:
        try:
            alone.append(decoded([record], types, **said))
        except InvalidArgumentError:
            with pytest.raises(InvalidArgumentError):
                decoded(records, types, **said)
            return
    for given_, wanted in zip(decoded(records, types, **said), zip(*alone, strict=True), strict=True):
        same(given_, np.concatenate(wanted))


@given(st.integers(8, 2500), st.randoms(use_true_random=False))
def test_usual_records_are_looked_at_together(count: int, chance: Any) -> None:
    types = (dtypes.int64, dtypes.float32, dtypes.string)
    numbers = [chance.choice([chance.randint(-(10**12), 10**12), ""]) for _ in range(count)]
    records = [f"{number},{chance.random()},x{number}".encode() for number in numbers]
    found = csv_columns.columns_of(records, types, ([5], [0.5], [b""]), b",", b"", (), has_quotes=True)
    assert found is not None
    assert found[0].tolist() == [5 if number == "" else number for number in numbers]
    assert found[2].tolist() == [f"x{number}".encode() for number in numbers]
    chosen = csv_columns.columns_of(records, types[2:], ([b""],), b",", b"", (2,), has_quotes=True)
    assert chosen is not None
    same(chosen[0], found[2])
