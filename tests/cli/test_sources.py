"""Values after `--feed NAME=`: every form, every cast that is allowed and every one that is not."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from flowengine.cli.failure import BAD_FEED, CommandError
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.feeding.sources import ValueTarget, cast, check_shape, read_archive, read_source
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape

PLAIN = ImageOptions()


def wanted(dtype: dtypes.DType | None = dtypes.float32, shape: Any = None) -> ValueTarget:
    return ValueTarget("x:0", dtype, TensorShape(shape))


def read(source: str, dtype: dtypes.DType | None = dtypes.float32, shape: Any = None) -> Any:
    return read_source(source, wanted(dtype, shape), PLAIN)


def refused(source: str, dtype: dtypes.DType | None = dtypes.float32, shape: Any = None) -> str:
    with pytest.raises(CommandError) as caught:
        read(source, dtype, shape)
    assert caught.value.code == BAD_FEED
    assert "x:0" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("3", dtypes.float32, np.float32(3)),
        ("-1e-3", dtypes.float64, np.float64(-1e-3)),
        ("3.0", dtypes.int32, np.int32(3)),
        ("[[1, 2], [3, 4]]", dtypes.int64, np.array([[1, 2], [3, 4]])),
        ("[]", dtypes.float32, np.zeros(0, np.float32)),
        ("true", dtypes.bool_, np.True_),
        ("False", dtypes.bool_, np.False_),
        ("inf", dtypes.float32, np.float32(np.inf)),
        ("1+2j", dtypes.complex64, np.complex64(1 + 2j)),
        ("18446744073709551615", dtypes.uint64, np.uint64(2**64 - 1)),
    ],
)
def test_literals(text: str, dtype: dtypes.DType, expected: Any) -> None:
    value = read(text, dtype)
    assert value.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(value, expected)


def test_nan_is_a_literal() -> None:
    assert np.isnan(read("nan"))


def test_the_bytes_of_a_file_and_words_that_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.raw").write_bytes(b"RIFF\0")
    (tmp_path / "3").write_bytes(b"")
    assert read("@s.raw", dtypes.string) == b"RIFF\0"
    assert read("@@home", dtypes.string) == b"@home"
    assert read('"s.raw"', dtypes.string) == b"s.raw"
    assert read('"@s.raw"', dtypes.string) == b"@s.raw"
    assert read("t.raw", dtypes.string) == b"t.raw"
    assert read("3") == 3
    message = refused("s.raw", dtypes.string)
    assert "--feed x=@s.raw for its bytes" in message
    assert """--feed x='"s.raw"' for the text""" in message
    # Neither would be taken for a number: the hint is another one.
    assert "a float32 is fed from .npy, .npz" in refused("s.raw", dtypes.float32)
    assert "cannot read" in refused("@nothing", dtypes.string)
    assert "for a string tensor, and this is float32" in refused("@s.raw")


def test_text_for_a_string_tensor() -> None:
    assert read("some text", dtypes.string) == b"some text"
    assert read('"3"', dtypes.string) == b"3"
    assert read('["a", "é"]', dtypes.string).tolist() == [b"a", "é".encode()]


@pytest.mark.parametrize(
    ("text", "dtype", "says"),
    [
        ("3.5", dtypes.int32, "3.5"),
        ("300", dtypes.uint8, "300"),
        ("-1", dtypes.uint8, "-1"),
        ("nan", dtypes.int32, "nan"),
        ("1j", dtypes.float32, "complex"),
        ("2", dtypes.bool_, "2"),
        ("[[1], [2, 3]]", dtypes.float32, "length"),
        ("[1, null]", dtypes.float32, "something else"),
        ('"a"', dtypes.float32, "text"),
        ("99999999999999999999999", dtypes.int64, "64 bits"),
        ("what is this", dtypes.float32, "not a number"),
        ("missing.weights", dtypes.float32, "no such file"),
        ("[1, 2]", dtypes.string, "not text"),
        ("[" * 100_000, dtypes.float32, "x:0"),
    ],
)
def test_what_would_change_the_value_is_refused(text: str, dtype: dtypes.DType, says: str) -> None:
    assert says in refused(text, dtype)


def test_shapes_are_checked_and_never_bent() -> None:
    assert read("[1, 2, 3]", shape=[None]).shape == (3,)
    message = refused("[1, 2, 3]", shape=[None, 3])
    assert "[3]" in message
    assert "[?,3]" in message


def test_files(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "one.npz", only=array)
    np.savez(tmp_path / "two.npz", first=array, second=array + 1)
    (tmp_path / "a.json").write_text(json.dumps(array.tolist()))
    for name in ("a.npy", "one.npz", "one.npz:only", "two.npz:first", "a.json"):
        value = read(str(tmp_path / name), dtypes.float32)
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, array)
    assert "two.npz:KEY" in refused(str(tmp_path / "two.npz"))
    assert "first, second" in refused(str(tmp_path / "two.npz:third"))
    assert set(read_archive(str(tmp_path / "two.npz"))) == {"first", "second"}


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([Trap()], dtype=object))
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("a.npy", "a.npz", "a.npz:x", "b.npy"):
        refused(str(tmp_path / name))
    with pytest.raises(CommandError):
        read_archive(str(tmp_path / "a.npz"))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.npz:x", "a.json", "a.png"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense\x00\xff", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_damaged_and_missing_files_are_bad_feeds(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name.partition(":")[0]).write_bytes(content)
    refused(str(tmp_path / name))


@given(
    st.binary(max_size=200),
    st.sampled_from([b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"GIF89a", b""]),
)
def test_any_bytes_at_all_are_read_or_refused(data: bytes, start: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", type("Stdin", (), {"buffer": io.BytesIO(start + data)}))
        with contextlib.suppress(CommandError):
            assert isinstance(read("-"), np.ndarray)


def test_cut_off_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.arange(100.0))
    np.savez_compressed(tmp_path / "whole.npz", x=np.arange(100.0))
    for name in ("whole.npy", "whole.npz"):
        data = (tmp_path / name).read_bytes()
        for length in range(0, len(data) - 1, 7):
            cut = tmp_path / f"cut{Path(name).suffix}"
            cut.write_bytes(data[:length])
            refused(str(cut))


class TestImages:
    def picture(self, path: Path, mode: str = "RGB", size: tuple[int, int] = (4, 2)) -> str:
        from PIL import Image

        bands = len(Image.new(mode, (1, 1)).getbands())
        shape = (size[1], size[0]) if bands == 1 else (size[1], size[0], bands)
        pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        Image.fromarray(pixels, mode=None).save(path)
        return str(path)

    def test_uint8_height_width_channels(self, tmp_path: Path) -> None:
        source = self.picture(tmp_path / "a.png")
        value = read(source, dtypes.uint8, [None, None, 3])
        assert value.dtype == np.uint8
        np.testing.assert_array_equal(value, np.arange(24).reshape(2, 4, 3))

    def test_a_batch_axis_for_rank_4_and_a_cast_without_scaling(self, tmp_path: Path) -> None:
        source = self.picture(tmp_path / "a.png")
        value = read(source, dtypes.float32, [None, 2, 4, 3])
        assert (value.shape, value.dtype) == ((1, 2, 4, 3), np.float32)
        assert value.max() == 23

    def test_the_tensor_says_how_many_channels(self, tmp_path: Path) -> None:
        source = self.picture(tmp_path / "grey.png", "L")
        assert read(source, dtypes.uint8).shape == (2, 4, 1)
        assert read(source, dtypes.uint8, [None, None, None, 3]).shape == (1, 2, 4, 3)
        assert read(self.picture(tmp_path / "c.png"), dtypes.uint8, [2, 4, 1]).shape == (2, 4, 1)

    def test_resized_to_a_fixed_size_and_else_only_if_asked(self, tmp_path: Path) -> None:
        source = self.picture(tmp_path / "a.png")
        assert read(source, dtypes.float32, [None, 8, 8, 3]).shape == (1, 8, 8, 3)
        assert read(source, dtypes.float32, [None, None, None, 3]).shape == (1, 2, 4, 3)
        asked = ImageOptions(size=(8, 6), scale=0.5, offset=-1.0)
        value = read_source(source, wanted(shape=[None, 8, 6, 3]), asked)
        assert value.shape == (1, 8, 6, 3)
        np.testing.assert_allclose(value.min(), -1.0, atol=2)
        unscaled = read_source(source, wanted(shape=[None, 8, 6, 3]), ImageOptions(size=(8, 6)))
        np.testing.assert_array_equal(value, unscaled * np.float32(0.5) - 1)

    def test_a_string_tensor_gets_the_bytes_of_the_file(self, tmp_path: Path) -> None:
        source = self.picture(tmp_path / "a.png")
        assert read(source, dtypes.string) == Path(source).read_bytes()


class TestStandardInput:
    def feed(self, monkeypatch: pytest.MonkeyPatch, data: bytes, dtype: Any = dtypes.float32) -> Any:
        class Stdin:
            buffer = io.BytesIO(data)

        monkeypatch.setattr("sys.stdin", Stdin)
        return read("-", dtype)

    def test_is_told_apart_by_content(self, monkeypatch: pytest.MonkeyPatch) -> None:
        array = np.array([1.5, 2.5])
        npy, npz = io.BytesIO(), io.BytesIO()
        np.save(npy, array)
        np.savez(npz, array)
        for data in (npy.getvalue(), npz.getvalue(), b"[1.5, 2.5]\n"):
            np.testing.assert_array_equal(self.feed(monkeypatch, data), array)

    def test_text_and_bytes_for_a_string_tensor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.feed(monkeypatch, b"hello\n", dtypes.string) == b"hello"
        assert self.feed(monkeypatch, b"\xff\xfe\x00", dtypes.string) == b"\xff\xfe\x00"

    def test_bytes_that_are_nothing_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(CommandError, match="neither"):
            self.feed(monkeypatch, b"\xff\xfe\x00")


INTEGERS = [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64]


@given(st.sampled_from(INTEGERS), npst.arrays(st.sampled_from([np.int64, np.float64, np.uint16]), (3,)))
def test_a_cast_to_integers_keeps_the_values_or_is_refused(target: dtypes.DType, array: Any) -> None:
    try:
        result = cast(array, wanted(target))
    except CommandError:
        limits = np.iinfo(target.as_numpy_dtype)
        whole = [float(item).is_integer() if np.isfinite(item) else False for item in array]
        assert not all(whole) or any(int(v) < limits.min or int(v) > limits.max for v in array.tolist())
    else:
        assert [int(v) for v in result.tolist()] == [int(v) for v in array.tolist()]


def test_a_tensor_of_unknown_dtype_takes_the_value_as_it_is() -> None:
    assert cast([1.5], wanted(None)).dtype == np.float64
    assert check_shape(np.zeros((2, 3)), wanted(None)).shape == (2, 3)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("word", ["zeros", "ones", "random"])
def test_values_are_made_up(word: str, dtype: str) -> None:
    kind = dtypes.as_dtype(dtype)
    value = read(word, kind, [None, 3, None])
    assert value.shape == (1, 3, 1)
    assert value.dtype == kind.as_numpy_dtype
    numbers = np.real(value.astype(np.complex128))
    assert ((numbers >= 0) & (numbers <= 1)).all()
    if word != "random":
        assert (numbers == (word == "ones")).all()
    np.testing.assert_array_equal(read(word, kind, [None, 3, None]), value)


def test_values_of_an_unknown_shape_are_not_made_up() -> None:
    assert "the shape is unknown, so that there are no zeros" in refused("zeros")
    assert read("zeros", dtypes.string, []) == b"zeros"


def test_random_truth_values_are_both() -> None:
    for dtype in ("bool", "int32"):
        found = read("random", dtypes.as_dtype(dtype), [40])
        assert set(found.tolist()) == {0, 1}
        assert found.dtype == dtype
