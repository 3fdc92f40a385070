"""Pictures and sounds as feeds: patterns of files, resizing, EXIF, WAV."""

from __future__ import annotations

import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.cli.failure import CommandError
from flowengine.cli.feeding.audio import read_audio
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.feeding.sources import ValueTarget, read_source
from flowengine.core.dtypes import DType, float32, int16, string, uint8
from flowengine.core.shapes import TensorShape

Image = pytest.importorskip("PIL.Image")
Output = pytest.CaptureFixture[str]
Dims = list[int | None] | None


def fed(source: object, dtype: DType, shape: Dims, options: ImageOptions | None = None) -> Any:
    return read_source(str(source), ValueTarget("x:0", dtype, TensorShape(shape)), options or ImageOptions())


def picture(path: Path, height: int, width: int, first: int = 0, **saving: Any) -> Any:
    array = (np.arange(height * width * 3).reshape(height, width, 3) + first).astype(np.uint8)
    Image.fromarray(array).save(path, **saving)
    return array


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (2, 0, 1):
        picture(tmp_path / f"cat_{number}.png", 4, 6, number)
    return tmp_path


def test_a_pattern_is_a_batch_in_the_order_of_names(folder: Path, capsys: Output) -> None:
    batch = fed(folder / "*.png", uint8, [None, None, None, 3])
    assert batch.shape == (3, 4, 6, 3)
    assert [image[0, 0, 0] for image in batch] == [0, 1, 2]
    assert fed(folder / "cat_[01].png", float32, [None, 4, 6, 1]).shape == (2, 4, 6, 1)
    texts = fed(folder / "cat_?.png", string, [None])
    assert texts.shape == (3,)
    assert all(text.startswith(b"\x89PNG") for text in texts)
    assert capsys.readouterr().err == ""


def test_a_file_whose_name_is_like_a_pattern_is_itself(tmp_path: Path) -> None:
    picture(tmp_path / "cat[1].png", 2, 2)
    assert fed(tmp_path / "cat[1].png", uint8, [None, None, 3]).shape == (2, 2, 3)


def test_the_size_of_the_tensor_is_taken_and_said(folder: Path, capsys: Output) -> None:
    assert fed(folder / "cat_0.png", uint8, [None, 2, 3, 3]).shape == (1, 2, 3, 3)
    assert capsys.readouterr().err == f"{folder}/cat_0.png: resized from 4x6 to 2x3 (bilinear)\n"
    assert fed(folder / "cat_0.png", uint8, [None, 4, 6, 3]).shape == (1, 4, 6, 3)
    assert fed(folder / "cat_0.png", uint8, [2, 3, 3], ImageOptions(size=(2, 3))).shape == (2, 3, 3)
    assert capsys.readouterr().err == ""
    picture(folder / "cat_9.png", 8, 8)
    assert fed(folder / "*.png", uint8, [None, 4, 6, 3]).shape == (4, 4, 6, 3)
    assert capsys.readouterr().err.count("resized") == 1


@pytest.mark.parametrize(
    ("pattern", "shape", "told"),
    [
        ("dog_*.png", [None, None, None, 3], "no file matches"),
        ("*.png", [None, None, 3], "3 files are a batch, and the tensor [?,?,3] takes one image"),
        ("*.png", [2, 4, 6, 3], "its shape is [3, 4, 6, 3], but the graph wants [2,4,6,3]"),
        ("*.*", [None, None, None, 3], "neither a literal nor a kind of file"),
    ],
)
def test_what_is_no_batch_of_pictures(folder: Path, pattern: str, shape: Dims, told: str) -> None:
    with pytest.raises(CommandError) as caught:
        fed(folder / pattern, uint8, shape)
    assert told in str(caught.value)


def test_pictures_of_two_sizes_and_damaged_ones_are_named(folder: Path) -> None:
    picture(folder / "cat_3.png", 4, 7)
    with pytest.raises(CommandError, match=r"cat_0\.png is 4x6x3 and .*cat_3\.png 4x7x3: add --image-size"):
        fed(folder / "*.png", uint8, [None, None, None, 3])
    (folder / "cat_1.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    with pytest.raises(CommandError, match=r"cat_1\.png: no image can be read from it"):
        fed(folder / "*.png", uint8, [None, None, None, 3])


def test_the_orientation_of_a_camera_is_ignored_as_by_tensorflow(tmp_path: Path, capsys: Output) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(tmp_path / "turned.jpg", 16, 24, exif=exif)
    assert fed(tmp_path / "turned.jpg", uint8, [None, None, 3]).shape == (16, 24, 3)
    assert "turned.jpg: its EXIF orientation (6) is ignored" in capsys.readouterr().err


def wav(path: Path, samples: Any, rate: int = 16000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


@pytest.mark.parametrize(
    ("shape", "channels", "found"),
    [
        ([None], 1, (5,)),
        ([None, None], 1, (1, 5)),
        ([None, 5], 1, (1, 5)),
        ([None, 1], 1, (5, 1)),
        ([None, 2], 2, (5, 2)),
        ([None, None], 2, (5, 2)),
        ([None, None, None], 2, (1, 5, 2)),
        ([1, 5, 1], 1, (1, 5, 1)),
        (None, 2, (5, 2)),
    ],
)
def test_samples_have_the_shape_of_the_tensor(
    shape: Dims, channels: int, found: tuple[int, ...], tmp_path: Path, capsys: Output
) -> None:
    samples = np.array([[-32768], [-1], [0], [1], [32767]], np.int16) // np.arange(1, channels + 1)
    path = wav(tmp_path / "a.wav", samples)
    value = fed(path, float32, shape)
    assert value.shape == found
    assert value.ravel().tolist() == (samples / 32768).astype(np.float32).ravel().tolist()
    assert np.array_equal(fed(path, int16, shape).ravel(), samples.ravel())
    word = "channels" if channels > 1 else "channel"
    assert (
        capsys.readouterr().err.splitlines()[0] == f"{path}: 5 samples of {channels} {word}, 16000 a second"
    )


def test_a_sound_for_a_string_is_the_bytes_of_its_file(tmp_path: Path) -> None:
    path = wav(tmp_path / "a.wav", np.zeros((3, 1)))
    assert fed(path, string, []) == path.read_bytes()
    assert fed(path, string, [None]).tolist() == [path.read_bytes()]


def test_a_sound_that_does_not_fit_is_told(tmp_path: Path) -> None:
    path = wav(tmp_path / "a.wav", np.zeros((3, 2)))
    with pytest.raises(CommandError, match=r"it has 2 channels, and the tensor \[\?\] takes one"):
        fed(path, float32, [None])
    path.write_bytes(
        b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, 8000, 32000, 4, 32) + bytes(8)
    )
    with pytest.raises(CommandError, match="no WAV file of 16-bit PCM"):
        fed(path, float32, [None])


@given(st.lists(st.integers(-32768, 32767), max_size=50))
def test_integer_samples_come_back(samples: list[int]) -> None:
    data = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + 2 * len(samples),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        8,
        16,
        2,
        16,
        b"data",
        2 * len(samples),
    )
    data += np.array(samples, "<i2").tobytes()
    assert read_audio(data, int16, TensorShape([None]), "a.wav").tolist() == samples
