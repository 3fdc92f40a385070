"""Values of summaries: what TensorBoard's plugins find in them, and which values are refused."""

from __future__ import annotations

import io
import wave
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flowengine as fe
from flowengine.kernels.image.coding import decode_png
from flowengine.tools.summaries.given import kinds_in
from flowengine.tools.summaries.values import (
    audio_tensor,
    checked_step,
    checked_tag,
    histogram_tensor,
    image_tensor,
    readable,
    scalar_tensor,
    text_tensor,
)

INVALID = fe.errors.InvalidArgumentError


@given(
    arrays(np.float64, st.integers(0, 40), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.integers(1, 12),
)
def test_a_histogram_counts_each_finite_value_between_its_edges(values: Any, buckets: int) -> None:
    rows, left_out = histogram_tensor("h", values, buckets)
    finite = values[np.isfinite(values)]
    assert rows.shape == (buckets, 3)
    assert left_out == values.size - finite.size
    assert rows[:, 2].sum() == finite.size
    assert np.isfinite(rows).all()
    assert (rows[:, 0] <= rows[:, 1]).all()
    assert (rows[1:, 0] == rows[:-1, 1]).all()
    if finite.size:
        assert (rows[0, 0], rows[-1, 1]) == (finite.min(), finite.max())
    else:
        assert not rows.any()


def test_a_histogram_has_tensorflows_buckets() -> None:
    """Recorded from `tensorboard.plugins.histogram.summary.buckets` on [0, 1, 1, 3, 4], and on [2, 2, 2]."""
    assert histogram_tensor("h", [0, 1, 1, 3, 4], 4)[0].tolist() == [
        [0, 1, 1],
        [1, 2, 2],
        [2, 3, 0],
        [3, 4, 2],
    ]
    assert histogram_tensor("h", [2, 2, 2], 3)[0].tolist() == [[2, 2, 0], [2, 2, 0], [2, 2, 3]]


def test_a_scalar_is_one_number() -> None:
    assert scalar_tensor("s", 1).dtype == np.float32
    assert scalar_tensor("s", np.array([[2.5]], ml_dtypes.bfloat16)).item() == 2.5
    assert scalar_tensor("s", True).item() == 1
    assert np.isnan(scalar_tensor("s", float("nan")).item())
    assert scalar_tensor("s", 1e300).item() == np.inf
    for wrong in ([], [1.0, 2.0], "text", 1j, None, [[1], [1, 2]]):
        with pytest.raises(INVALID, match="'s'"):
            scalar_tensor("s", wrong)


def test_images_are_pngs_with_their_size_before() -> None:
    pixels = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    width, height, first, second = image_tensor("i", pixels, 5).tolist()
    assert (width, height) == (b"4", b"3")
    assert np.array_equal(decode_png(first, channels=0, dtype=fe.dtypes.uint8), pixels[0])
    assert np.array_equal(decode_png(second, channels=0, dtype=fe.dtypes.uint8), pixels[1])
    assert len(image_tensor("i", pixels, 1)) == 3
    assert image_tensor("i", pixels[:0], 3).tolist() == [b"4", b"3"]


def test_floats_of_an_image_are_bounded_and_nan_is_black() -> None:
    row = np.array([0.0, 0.5, 1.0, 2.0, -1.0, np.nan, np.inf, -np.inf], np.float32)
    decoded = decode_png(image_tensor("i", row[None, None, :, None], 1)[2], channels=0, dtype=fe.dtypes.uint8)
    assert decoded.reshape(-1).tolist() == [0, 128, 255, 255, 0, 0, 255, 0]


@pytest.mark.parametrize(
    "images",
    [np.zeros([4, 4, 3]), np.zeros([1, 4, 4, 2]), np.zeros([1, 0, 4, 3]), np.zeros([1, 2, 2, 1], int), ["a"]],
)
def test_images_of_another_shape_or_type_are_refused(images: Any) -> None:
    with pytest.raises(INVALID, match="'i'"):
        image_tensor("i", images, 3)


def test_sounds_are_wave_files_without_labels() -> None:
    sound = np.array([[0.0, 1.0], [0.5, -1.0], [2.0, np.nan]], np.float32)
    ((data, label),) = audio_tensor("a", sound[None], 8000, 3).tolist()
    assert label == b""
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 2, 3)
        assert np.frombuffer(file.readframes(3), "<i2")[-2:].tolist() == [32767, 0]
    for wrong, rate in (
        (sound, 8000),
        (sound[None, :0], 8000),
        (np.zeros([1, 3, 2], int), 8000),
        (sound[None], 0),
    ):
        with pytest.raises(INVALID, match="'a'"):
            audio_tensor("a", wrong, rate, 3)
    with pytest.raises(INVALID, match="max_outputs=0"):
        audio_tensor("a", sound[None], 8000, 0)


def test_texts_are_utf_8_whatever_they_were() -> None:
    assert text_tensor("t", "ä").tolist() == "ä".encode()
    assert text_tensor("t", [["a", b"b"], ["c", "d"]]).tolist() == [[b"a", b"b"], [b"c", b"d"]]
    assert text_tensor("t", []).shape == (0,)
    assert readable(b"a\xff") == "a\ufffd".encode()
    assert readable("a\ud800") == "a\ufffd".encode()
    with pytest.raises(INVALID, match=r"'t' is a str.*int"):
        text_tensor("t", ["a", 1])


def test_tags_are_text_and_steps_are_whole() -> None:
    assert checked_tag("ä") == checked_tag("ä".encode()) == "ä"
    for tag in (b"\xff", "\ud800", "", None, 3):
        with pytest.raises(INVALID, match="tag"):
            checked_tag(tag)
    assert checked_step(np.int64(3)) == 3
    assert type(checked_step(np.array(3))) is int
    for step in (-1, 2**63, 1.5, "3", None):
        with pytest.raises(INVALID, match="step="):
            checked_step(step)


def test_kinds_of_summaries_are_seen() -> None:
    graph = fe.Graph()
    ops = graph.ops
    found = [
        ops.ScalarSummary("loss", graph.constant(1.0)),
        ops.HistogramSummary("weights", graph.constant([1.0, 2.0])),
        ops.ImageSummary("picture", graph.constant(np.zeros([1, 2, 2, 1], np.float32))),
        ops.TensorSummary(graph.constant(1.0), name="tensor"),
    ]
    with fe.blocking.Session(graph) as session:
        merged = session.run(ops.MergeSummary(found))
    assert kinds_in(merged) == [
        ("loss", "scalars"),
        ("weights", "histograms"),
        ("picture/image/0", "images"),
        ("tensor", "tensors"),
    ]
    assert kinds_in(b"") == []
    for other in (b"abc", merged[:-1], b"\x0a\x03\x0a\x01\xff", "text", 3):
        assert kinds_in(other) is None
