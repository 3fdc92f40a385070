"""Images into files and back."""

from __future__ import annotations

import contextlib
import io
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.accounting import call_for
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.ir.graph import Node
from flowengine.kernels.image import coding
from tests.effort import examples

Image = pytest.importorskip("PIL.Image", reason="Pillow (the extra `image`) is not installed")


def _image(channels: int, dtype: Any = np.uint8) -> Any:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (5, 7, channels), dtype, endpoint=True)


@settings(deadline=None)
@given(st.sampled_from([1, 2, 3, 4]), st.integers(1, 9), st.integers(1, 9), st.integers(-1, 9))
def test_png_comes_back(channels: int, height: int, width: int, compression: int) -> None:
    image = np.random.default_rng(1).integers(0, 256, (height, width, channels), np.uint8)
    data = coding.encode_png(image, compression=compression)
    assert np.array_equal(coding.decode_png(data, channels=0, dtype=dtypes.uint8), image)


def test_png_of_16_bits() -> None:
    image = _image(1, np.uint16)
    data = coding.encode_png(image, compression=-1)
    assert np.array_equal(coding.decode_png(data, channels=0, dtype=dtypes.uint16), image)
    assert np.array_equal(coding.decode_png(data, channels=1, dtype=dtypes.uint8), image >> 8)
    small = coding.encode_png(_image(3), compression=-1)
    assert np.array_equal(
        coding.decode_png(small, channels=0, dtype=dtypes.uint16), _image(3).astype(np.uint16) * 257
    )


def _jpeg(image: Any, form: bytes = b"", **changes: Any) -> bytes:
    attrs: dict[str, Any] = {
        "quality": 95,
        "progressive": False,
        "optimize_size": False,
        "chroma_downsampling": True,
        "density_unit": b"in",
        "x_density": 300,
        "y_density": 300,
    }
    node = Node("jpeg", "EncodeJpeg", attrs={"format": form})
    return coding.encode_jpeg(image, node=node, **{**attrs, **changes})


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_comes_back_nearly(channels: int) -> None:
    image = np.full((16, 24, channels), 90, np.uint8)
    image[:, 12:] = 160
    out = coding.decode_jpeg(_jpeg(image), channels=0, ratio=1)
    assert out.shape == image.shape
    assert np.abs(out.astype(int) - image).max() < 12
    assert coding.decode_jpeg(_jpeg(image), channels=3, ratio=2).shape == (8, 12, 3)
    assert coding.decode_jpeg(_jpeg(image), channels=1, ratio=1).shape == (16, 24, 1)


def test_frames_of_a_gif() -> None:
    frames = [Image.new("RGB", (3, 2), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    decoded = coding.decode_gif(out.getvalue())
    assert decoded.shape == (2, 2, 3, 3)
    assert decoded[:, 0, 0].tolist() == [[255, 0, 0], [0, 0, 255]]
    with pytest.raises(InvalidArgumentError, match="Got 2 frames"):
        coding.decode_png(out.getvalue(), channels=0, dtype=dtypes.uint8)
    assert coding.decode_gif(coding.encode_png(_image(3), compression=-1)).shape == (1, 5, 7, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_bmp(channels: int) -> None:
    image = _image(channels)
    out = io.BytesIO()
    Image.fromarray(image[:, :, 0] if channels == 1 else image).save(out, "BMP")
    assert np.array_equal(coding.decode_bmp(out.getvalue(), channels=0), image)
    with pytest.raises(InvalidArgumentError, match="does not match"):
        coding.decode_bmp(out.getvalue(), channels=4)
    with pytest.raises(InvalidArgumentError, match="Incomplete bmp"):
        coding.decode_bmp(out.getvalue()[:-1], channels=0)


def test_what_is_no_image() -> None:
    for bad, complaint in ((b"xx", "unknown format starting with b'xx'"), (b"", "got empty file")):
        with pytest.raises(InvalidArgumentError, match=complaint):
            coding.decode_png(bad, channels=0, dtype=dtypes.uint8)
    data = coding.encode_png(_image(3), compression=-1)
    for bad in (data[:20], data[:60], _jpeg(_image(3))[:200]):
        with pytest.raises(InvalidArgumentError, match=r"Invalid (PNG|JPEG) data"):
            coding.decode_png(bad, channels=0, dtype=dtypes.uint8)


def test_sizes_are_bounded() -> None:
    header = b"BM" + struct.pack("<iiiiiiHH", 0, 0, 54, 40, 2**20, 2**20, 1, 24) + bytes(40)
    with pytest.raises(ResourceExhaustedError, match="1048576 x 1048576 pixels"):
        coding.decode_bmp(header, channels=0)


def test_images_that_cannot_be_encoded() -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 4 channels"):
        coding.encode_png(_image(5), compression=-1)
    with pytest.raises(InvalidArgumentError, match="for format 'grayscale'"):
        _jpeg(_image(3), form=b"grayscale")
    with pytest.raises(InvalidArgumentError, match="quality"):
        _jpeg(_image(3), quality=101)


def _gif(*frames: tuple[int, int]) -> bytes:
    """A GIF of 2 x 2 pixels with frames of these sizes, each of one colour."""
    parts = [b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])]
    for width, height in frames:
        # LZW in codes of three bits: clear, two pixels of colour 0, the same again, and the end.
        codes = sum(code << 3 * place for place, code in enumerate((4, 0, 0, 4, 0, 0, 5)))
        data = codes.to_bytes(3, "little")
        parts.append(b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x03" + data + b"\x00")
    return b"".join(parts) + b";"


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        ((3, 3), InvalidArgumentError, "frame 0: 2 x 2 pixels .* must fill the image, which has 3 x 3"),
        ((60_000, 60_000), ResourceExhaustedError, r"60000 x 60000 pixels in 2 frame\(s\)"),
    ],
)
def test_a_frame_that_makes_the_image_larger(size: tuple[int, int], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        coding.decode_gif(_gif((2, 2), size))


def _claiming(form: str, width: int, height: int) -> bytes:
    """A file of few bytes that says how many pixels it has."""
    if form == "GIF":
        head, screen = b"GIF89a", struct.pack("<HHBBB", width, height, 0x80, 0, 0)
        image = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)
        return head + screen + bytes([0, 0, 0, 255, 255, 255]) + image + b"\x02\x02L\x01\x00;"
    out = io.BytesIO()
    Image.new("L" if form == "JPEG" else "RGB", (width, height)).save(out, form)
    return out.getvalue()


@pytest.mark.parametrize("form", ["GIF", "PNG", "JPEG"])
@pytest.mark.parametrize("op", ["DecodePng", "DecodeGif", "DecodeImage"])
async def test_pixels_are_asked_for_before_they_are_there(form: str, op: str) -> None:
    data = _claiming(form, 2000, 1000)
    g = fe.Graph()
    more = {} if op == "DecodeGif" else {"channels": 3}
    getattr(g.ops, op)(g.constant(data, "string"), name="image", **more)
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=5_000_000)) as session:
        tracemalloc.start()
        try:
            with pytest.raises(ResourceExhaustedError, match="memory_limit_bytes"):
                await session.run("image:0")
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()
    if form != "GIF":  # of which there are no pixels
        async with fe.Session(g, config=fe.Config(memory_limit_bytes=40_000_000)) as session:
            assert (await session.run("image:0")).shape[-3:] == (1000, 2000, 3)


def test_more_frames_than_pixels_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "PIXELS_MAX", 11)
    assert coding.decode_gif(_gif((2, 2), (2, 2))).shape == (2, 2, 2, 3)
    with pytest.raises(ResourceExhaustedError, match=r"2 x 2 pixels in 3 frame\(s\)"):
        coding.decode_gif(_gif((2, 2), (2, 2), (2, 2)))


def test_a_gif_is_refused_at_the_frame_that_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "PIXELS_MAX", 8)
    data = _gif(*[(2, 2)] * 500)
    looked: list[int] = []
    real = coding._bounded

    def bounded(*sizes: int) -> None:
        looked.append(sizes[-1])
        real(*sizes)

    monkeypatch.setattr(coding, "_bounded", bounded)
    # Text and other blocks between the frames do not count, and what is in them is not taken for frames.
    comment = b"!\xfe" + b"\x05,,,,," + b"\x00"
    for file in (data, data[:19] + comment * 9 + data[19:]):
        looked.clear()
        with pytest.raises(ResourceExhaustedError, match=r"2 x 2 pixels in 3 frame\(s\)"):
            coding.decode_gif(file)
        assert looked == [1, 2, 3]
    asked: list[int] = []

    class OneFrame:
        def check(self, wanted: int = 0) -> None:
            asked.append(wanted)
            if wanted > 2 * 2 * 3:
                raise ResourceExhaustedError("enough")

    with pytest.raises(ResourceExhaustedError, match="enough"):
        call_for(OneFrame(), coding.decode_gif, _gif((2, 2), (2, 2)))  # type: ignore[arg-type]
    assert asked == [12, 24]


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_a_damaged_file_is_an_image_or_an_error_of_ours(data: st.DataObject) -> None:
    out = io.BytesIO()
    form = data.draw(st.sampled_from(["GIF", "PNG", "JPEG"]))
    Image.fromarray(_image(3)).save(out, form)
    damaged = bytearray(out.getvalue() + (_gif((2, 2), (2, 2)) if form == "GIF" else b""))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(6, len(damaged) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x2C, 0x3B]))
    with contextlib.suppress(InvalidArgumentError, ResourceExhaustedError):
        coding.decode_gif(bytes(damaged))


@pytest.mark.parametrize("factors", [0x00, 0x13, 0x31, 0x34, 0x43, 0x44])
def test_odd_sampling_factors_give_an_image_or_an_error_of_ours(factors: int) -> None:
    out = io.BytesIO()
    Image.fromarray(_image(3)).save(out, "JPEG")
    data = bytearray(out.getvalue())
    first_component = data.index(b"\xff\xc0") + 11  # after the frame's length, precision, size and count
    data[first_component] = factors
    with contextlib.suppress(InvalidArgumentError):
        assert coding.decode_jpeg(bytes(data), channels=3, ratio=1).shape[-1] == 3
