"""Summaries as serialised protocol buffers."""

from __future__ import annotations

import io
import struct
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from tests.oprecords.record import OpRecord, Sample, bad, sample, strings

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is a serialized message: tests/conformance": """
        HistogramSummary MergeSummary ScalarSummary
    """,
}
_INVALID: Final = "InvalidArgumentError"
_PICTURES: Final = (np.arange(48) * 5).reshape(2, 4, 2, 3)


def _message(data: bytes) -> dict[int, Any]:
    return dict(_fields(data))


def _fields(data: bytes) -> list[tuple[int, Any]]:
    """(number, value) of each field; lengths and numbers here take one or two bytes."""
    stream, found = io.BytesIO(data), []
    while key := stream.read(1):
        number, kind = key[0] >> 3, key[0] & 7
        if kind == 5:
            found.append((number, struct.unpack("<f", stream.read(4))[0]))
            continue
        size = stream.read(1)[0]
        size = size & 127 | stream.read(1)[0] << 7 if size > 127 else size
        found.append((number, stream.read(size) if kind == 2 else size))
    return found


def _pixels(png: bytes) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)))


def _check_images(outputs: Any, inputs: Any) -> None:
    entries = [_message(data) for data in _values(outputs)]
    assert [entry[1] for entry in entries] == [b"t/image/0", b"t/image/1"][: len(inputs[1])]
    for entry, image in zip(entries, inputs[1], strict=True):
        height, width, depth = image.shape
        fields = _message(entry[4])
        assert [fields[n] for n in (1, 2, 3)] == [height, width, depth]
        wanted = image if image.dtype == np.uint8 else np.trunc(image.astype(float) * (255 / image.max()))
        shown = _pixels(fields[4]).reshape(image.shape)
        assert np.abs(shown - wanted.astype(float)).max() <= 1


def _values(outputs: Any) -> list[bytes]:
    return [value for number, value in _fields(to_array(outputs[0]).item()) if number == 1]


def _check_sounds(outputs: Any, inputs: Any) -> None:
    entries = [_message(data) for data in _values(outputs)]
    assert [entry[1] for entry in entries] == [b"t/audio/0", b"t/audio/1"][: len(inputs[1])]
    for entry, sound in zip(entries, inputs[1], strict=True):
        fields = _message(entry[6])
        assert fields[1] == 100.0
        assert [fields[2], fields[3]] == [1 if sound.ndim == 1 else sound.shape[1], len(sound)]
        assert fields[5] == b"audio/wav"
        samples = np.frombuffer(fields[4][44:], "<i2")
        assert np.abs(samples / 32767 - sound.reshape(-1)).max() < 1e-4


def _check_tensor(outputs: Any, inputs: Any) -> None:
    (value,) = [_message(data) for data in _values(outputs)]
    assert value[7]
    kind = b"\x08\x07" if inputs[0].dtype.kind == "O" else b"\x08\x03"
    content = b"B\x01aB\x01b" if inputs[0].dtype.kind == "O" else b'"\x08\x01\0\0\0\x02\0\0\0'
    assert value[8] == kind + b"\x12\x04\x12\x02\x08\x02" + content


_SOUND: Final = np.sin(np.arange(24.0)).reshape(2, 6, 2)
_MATRIX: Final = (
    b'\n"\n\x01tB\x16\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02"\x08\0\0\x80?\0\0\0@J\x05\n\x03\n\x01a'
)

RECORDS: Final = [
    OpRecord(
        "ImageSummary",
        [
            sample(b"t", _PICTURES),
            sample(b"t", _PICTURES[:1, :, :, :1]),
            sample(b"t", _PICTURES[:0]),
        ],
        check=_check_images,
        bad=[
            bad(_INVALID, "last dim 1, 3, or 4", b"t", _PICTURES[..., :2]),
            bad(_INVALID, "4-D", b"t", _PICTURES[0]),
            bad(_INVALID, "scalar", strings(b"t"), _PICTURES),
            bad(_INVALID, "non-zero", b"t", _PICTURES[:, :0]),
        ],
    ),
    OpRecord(
        "AudioSummary",
        [sample(b"t", _SOUND, sample_rate=100.0), sample(b"t", _SOUND[:1, :, 0], sample_rate=100.0)],
        check=_check_sounds,
        bad=[
            bad(_INVALID, "3-D or 2-D", b"t", _SOUND[0, 0], sample_rate=100.0),
            bad(_INVALID, "sample_rate", b"t", _SOUND, sample_rate=0.0),
        ],
    ),
    OpRecord(
        "AudioSummaryV2",
        [sample(b"t", _SOUND, 100.0), sample(b"t", _SOUND[:1, :, 0], 100.0)],
        check=_check_sounds,
        bad=[
            bad(_INVALID, "3-D or 2-D", b"t", _SOUND[0, 0], 100.0),
            bad(_INVALID, "sample_rate", b"t", _SOUND, 0.0),
            bad(_INVALID, "num_frames", b"t", _SOUND[:, :0], 100.0),
        ],
    ),
    OpRecord(
        "TensorSummary",
        [sample([1, 2], T="int32"), sample(strings(b"a", b"b"), T="string")],
        check=_check_tensor,
        dtypes={"T": ["int32"]},
    ),
    OpRecord(
        "TensorSummaryV2",
        [
            Sample((b"t", [[1.0, 2.0]], b"\n\x03\n\x01a"), {"T": "float32"}, [to_array(_MATRIX)]),
            Sample(
                (b"t", b"abc", b""), {"T": "string"}, [to_array(b"\n\x10\n\x01tB\t\x08\x07\x12\0B\x03abcJ\0")]
            ),
        ],
        bad=[bad(_INVALID, "tag must be scalar", strings(b"t"), 1.0, b"", T="float32")],
        dtypes={"T": ["float32"]},
    ),
]
