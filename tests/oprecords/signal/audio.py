"""Audio: wave files, spectrograms, cepstral coefficients."""

from __future__ import annotations

import io
import math
import wave
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_NOISE: Final = (np.random.default_rng(4).random((90, 2)) * 2.4 - 1.2).astype(np.float32)
_SPECTRUM: Final = np.random.default_rng(5).random((2, 3, 17)).astype(np.float32) * 9


def _wave(samples: Any, rate: int = 8000, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(samples.shape[1])
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(samples.tobytes())
    return file.getvalue()


def _written(audio: Any, sample_rate: Any) -> bytes:
    scaled = audio * 32768
    rounded = np.floor(np.abs(scaled) + 0.5) * np.sign(scaled)
    return _wave(np.clip(rounded, -32768, 32767).astype("<i2"), int(sample_rate))


def _read(contents: Any, *, desired_channels: int = -1, desired_samples: int = -1) -> Any:
    with wave.open(io.BytesIO(contents.item()), "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        rate = file.getframerate()
    count = len(samples) if desired_samples == -1 else desired_samples
    while samples.shape[1] < desired_channels:
        samples = np.concatenate([samples, samples[:, -1:]], axis=1)
    samples = samples[:, : samples.shape[1] if desired_channels == -1 else desired_channels]
    padded = np.zeros((count, samples.shape[1]))
    padded[: len(samples)] = samples[:count] / 32768
    return padded.astype(np.float32), np.int32(rate)


def _spectrogram(audio: Any, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Any:
    length = 2 ** math.ceil(math.log2(window_size))
    stream = audio.T.reshape(-1)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(window_size)) / length)
    rows: list[list[Any]] = [[] for _ in range(audio.shape[1])]
    for end in range(window_size, len(stream) + 1, stride):
        squares = np.abs(turns @ (stream[end - window_size : end] * window)) ** 2
        rows[(end - 1) // len(audio)].append(squares if magnitude_squared else np.sqrt(squares))
    return np.array(rows).reshape(audio.shape[1], -1, length // 2 + 1)


def _mfcc(
    spectrogram: Any,
    sample_rate: Any,
    *,
    upper_frequency_limit: float = 4000.0,
    lower_frequency_limit: float = 20.0,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
) -> Any:
    """One frequency after another, as the definition says it."""
    channels, windows, bins = spectrogram.shape
    low, high = (1127 * math.log1p(f / 700) for f in (lower_frequency_limit, upper_frequency_limit))
    count = filterbank_channel_count
    edges = [low + (high - low) * i / (count + 1) for i in range(count + 2)]
    out = np.zeros((channels, windows, dct_coefficient_count))
    step = sample_rate / 2 / (bins - 1)
    for place in np.ndindex(channels, windows):
        energies = [0.0] * count
        for i in range(int(1.5 + lower_frequency_limit / step), int(upper_frequency_limit / step) + 1):
            mel, loud = 1127 * math.log1p(i * step / 700), math.sqrt(spectrogram[place][i])
            for filter_ in range(count):
                left, top, right = edges[filter_ : filter_ + 3]
                if left < mel <= top:
                    energies[filter_] += loud * (mel - left) / (top - left)
                elif top < mel <= right:
                    energies[filter_] += loud * (right - mel) / (right - top)
        logs = [math.log(max(e, 1e-12)) for e in energies]
        for k in range(dct_coefficient_count):
            turned = sum(e * math.cos(math.pi / count * k * (j + 0.5)) for j, e in enumerate(logs))
            out[place][k] = math.sqrt(2 / count) * turned
    return out


_GOOD: Final = _wave((_NOISE * 20000).astype("<i2"))

RECORDS: Final = [
    OpRecord(
        "DecodeWav",
        [
            sample(_GOOD),
            sample(_GOOD, desired_channels=1),
            sample(_GOOD, desired_channels=3, desired_samples=100),
            sample(_GOOD, desired_samples=7),
        ],
        _read,
        [
            bad("InvalidArgumentError", "there are 0", b""),
            bad("InvalidArgumentError", "Expected RIFF", b"X" + _GOOD[1:]),
            bad("InvalidArgumentError", "360 bytes, 359 are there", _GOOD[:-1]),
            bad("InvalidArgumentError", "More than one data chunk", _GOOD + _GOOD[36:]),
            bad("InvalidArgumentError", "No data chunk", _GOOD[:36]),
            bad("InvalidArgumentError", "Expected 16 but got 8", _wave(np.ones((3, 1), np.uint8), width=1)),
        ],
        loose=0,
        partial=True,
    ),
    OpRecord(
        "EncodeWav",
        [sample(_NOISE, 8000), sample(_NOISE[:, :1], 44100), sample(np.zeros((0, 1)), 1)],
        _written,
        [
            bad("InvalidArgumentError", "not 0", _NOISE[:, :0], 8000),
            bad("InvalidArgumentError", "not -1", _NOISE, -1),
        ],
    ),
    OpRecord(
        "AudioSpectrogram",
        [
            sample(_NOISE, window_size=15, stride=15),
            sample(_NOISE, window_size=20, stride=17, magnitude_squared=True),
            sample(_NOISE[:, :1], window_size=33, stride=4),
            sample(_NOISE[:3, :1], window_size=33, stride=4),
        ],
        _spectrogram,
        [bad("InvalidArgumentError", "Expected height 0 but got 5", _NOISE[:20], window_size=36, stride=1)],
        loose=20,
    ),
    OpRecord(
        "Mfcc",
        [
            sample(_SPECTRUM, 8000, filterbank_channel_count=6, dct_coefficient_count=4),
            sample(_SPECTRUM, 16000, filterbank_channel_count=5, dct_coefficient_count=5),
            sample(
                _SPECTRUM,
                16000,
                upper_frequency_limit=7000.0,
                lower_frequency_limit=300.0,
                filterbank_channel_count=4,
                dct_coefficient_count=3,
            ),
        ],
        _mfcc,
        [
            bad("InvalidArgumentError", "17 channels, sample rate 0", _SPECTRUM, 0),
            bad(
                "InvalidArgumentError", "of which 41 coefficients", _SPECTRUM, 8000, dct_coefficient_count=41
            ),
        ],
        loose=20,
    ),
]
