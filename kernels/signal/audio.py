"""Audio: wave files in and out, spectrograms, and cepstral coefficients of them."""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.matrices import product
from flowengine.kernels.registry import kernel

HOST: Final = "files of samples, and spectra by tables; TensorFlow has no GPU kernel"

#: What a full scale of 16 bits is as a float.
_SCALE: Final = np.float32(1 << 15)
#: The least that a filter gives before its logarithm is taken.
_FLOOR: Final = 1e-12
#: RIFF, size, WAVE, "fmt ", size; format, channels, rate, bytes a second and a frame, bits; "data", size.
_HEADER: Final = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FORMAT: Final = struct.Struct("<HHIIHH")


def _scalar(value: Value, what: str) -> Any:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, but had shape: {list(array.shape)}")
    return array.item()


@kernel(
    "DecodeWav", fresh=True, heavy=lambda contents: len(contents) / 1000 if type(contents) is bytes else 1.0
)
def decode_wav(contents: Value, *, desired_channels: int, desired_samples: int) -> tuple[Array, Any]:
    """Samples between -1 and 1 (float32 [samples, channels]) and samples a second (int32, rank 0).

    Channels and samples that are wanted and not there: the last channel again, zeros at the end. Raises
    InvalidArgumentError for what is no wave file of 16 bits PCM.
    """
    data: bytes = _scalar(contents, "contents")
    channels, rate, samples = _parsed(data)
    wanted_channels = channels if desired_channels == -1 else desired_channels
    count = len(samples) if desired_samples == -1 else desired_samples
    if wanted_channels < 0 or count < 0:
        raise InvalidArgumentError(
            f"{wanted_channels} channels of {count} samples cannot be made of a wave file"
        )
    out = np.zeros((count, wanted_channels), np.float32)
    kept = min(count, len(samples))
    chosen = np.minimum(np.arange(wanted_channels), channels - 1)
    np.divide(samples[:kept, chosen], _SCALE, out=out[:kept])
    return out, np.int32(rate)


def _parsed(data: bytes) -> tuple[int, int, Array]:
    """Channels, rate, and int16 [samples, channels]."""
    if len(data) < 36:
        raise InvalidArgumentError(f"a WAV file begins with at least 36 bytes; there are {len(data)}")
    for at, expected in ((0, b"RIFF"), (8, b"WAVE"), (12, b"fmt ")):
        if data[at : at + 4] != expected:
            raise InvalidArgumentError(
                f"Header mismatch: Expected {expected.decode()} but found {data[at : at + 4]!r}"
            )
    (size,) = struct.unpack_from("<I", data, 16)
    if size not in (16, 18):
        raise InvalidArgumentError(f"Bad format chunk size for WAV: Expected 16 or 18, but got {size}")
    form, channels, rate, per_second, per_frame, bits = _FORMAT.unpack_from(data, 20)
    for what, expected_value, found in (
        ("audio format (1 is PCM)", 1, form),
        ("bits a sample", 16, bits),
        ("bytes a frame", 2 * channels, per_frame),
        ("bytes a second", per_frame * rate, per_second),
    ):
        if found != expected_value:
            raise InvalidArgumentError(f"Bad {what} in WAV header: Expected {expected_value} but got {found}")
    if not channels:
        raise InvalidArgumentError("a WAV file without channels")
    samples: Array | None = None
    at = 20 + size
    while at < len(data):
        if at + 8 > len(data):
            raise InvalidArgumentError("Data too short when trying to read a chunk of a WAV file")
        kind, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        at += 8
        if kind == b"data":
            if samples is not None:
                raise InvalidArgumentError("More than one data chunk found in WAV")
            frames = length // per_frame
            if at + frames * per_frame > len(data):
                raise InvalidArgumentError(
                    f"Data too short: a chunk of a WAV file has {length} bytes, {len(data) - at} are there"
                )
            samples = np.frombuffer(data, "<i2", frames * channels, at).reshape(frames, channels)
            at += frames * per_frame
        else:
            at += length  # of no interest, even if cut off
    if samples is None:
        raise InvalidArgumentError("No data chunk found in WAV")
    return channels, rate, samples


@kernel("EncodeWav", fresh=True)
def encode_wav(audio: Value, sample_rate: Value) -> bytes:
    """A wave file (string, rank 0) of 16 bits from samples between -1 and 1 (float32 [samples, channels])."""
    samples, rate = to_array(audio), int(_scalar(sample_rate, "sample_rate"))
    if samples.ndim != 2:
        raise InvalidArgumentError(f"audio must be 2-dimensional but got shape {list(samples.shape)}")
    channels = samples.shape[1]
    if not 0 < channels < 2**15:
        raise InvalidArgumentError(f"a WAV file has 1 to 32767 channels, not {channels}")
    if rate <= 0:
        raise InvalidArgumentError(f"sample_rate must be positive, not {rate}")
    if samples.size * 2 + _HEADER.size > 2**32 - 1:
        raise InvalidArgumentError(f"{samples.size} samples are too many for a WAV file")
    scaled = samples * _SCALE
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    body = np.clip(rounded, -32768, 32767).astype("<i2").tobytes()
    per_frame = 2 * channels
    size = _HEADER.size + len(body) - 8
    return (
        _HEADER.pack(
            b"RIFF",
            size,
            b"WAVE",
            b"fmt ",
            16,
            1,
            channels,
            rate,
            # Bytes a second, in the 32 bits that there are for it.
            per_frame * rate % 2**32,
            per_frame,
            16,
            b"data",
            len(body),
        )
        + body
    )


@functools.lru_cache(maxsize=16)
def _window(length: int) -> Array:
    """The periodic Hann window."""
    return 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(length) / length)


@kernel("AudioSpectrogram", fresh=True, heavy=lambda audio, **_: 0.1 * getattr(audio, "size", 1))
def audio_spectrogram(audio: Value, *, window_size: int, stride: int, magnitude_squared: bool) -> Array:
    """How loud each frequency is in each window: float32 [channels, windows, frequencies].

    audio   float32 [samples, channels]; windows of `window_size` begin every `stride` samples, and are
            transformed at the next power of two. As in TensorFlow, a window that is not complete at the
            end of a channel is completed by the next channel.
    Raises InvalidArgumentError where the channels then differ in their number of windows.
    """
    samples = to_array(audio)
    if samples.ndim != 2:
        raise InvalidArgumentError(f"audio must be 2-dimensional but got shape {list(samples.shape)}")
    if window_size < 2 or stride < 1:
        raise InvalidArgumentError(
            f"window_size {window_size} must be at least 2, stride {stride} at least 1"
        )
    length = 1 << (window_size - 1).bit_length()
    each, channels = samples.shape
    count = 0 if each < window_size else 1 + (each - window_size) // stride
    out = np.empty((channels, count, 1 + length // 2), np.float32)
    stream = samples.T.reshape(-1)
    # Where windows end, in channels one after another; a window belongs to the channel that it ends in.
    ends = np.arange(window_size, stream.size + 1, stride)
    bounds = np.searchsorted(ends, np.arange(channels + 1) * each, side="right")
    for channel in range(channels):
        first, last = int(bounds[channel]), int(bounds[channel + 1])
        if last - first != count:
            raise InvalidArgumentError(
                f"Spectrogram size calculation failed: Expected height {count} but got {last - first}: the "
                f"windows of channel {channel}, which go on where those of the last one ended"
            )
        if count:
            every = np.lib.stride_tricks.sliding_window_view(stream, window_size)
            windows = every[first * stride : last * stride : stride]
            spectrum = np.fft.rfft(windows * _window(window_size), length)
            out[channel] = spectrum.real**2 + spectrum.imag**2
    return out if magnitude_squared else np.sqrt(out)


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


@functools.lru_cache(maxsize=16)
def _filters(bins: int, rate: int, count: int, low: float, high: float) -> Array | None:
    """Return each frequency's share in each filter (float64 [bins, count]).

    None for limits above the spectrum.

    The filters are triangles of equal width in mels: what a frequency does not add to the one on whose
    falling side it is, it adds to the next.
    """
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / step), int(high / step)
    if last >= bins:
        return None
    spacing = (_mel(high) - _mel(low)) / (count + 1)
    centers = _mel(low) + spacing * np.arange(1, count + 2)
    used = np.arange(first, last + 1)
    mels = _mel(used * step)
    channel = np.searchsorted(centers[:count], mels) - 1
    below = np.where(channel >= 0, centers[channel], _mel(low))
    falling = (centers[channel + 1] - mels) / (centers[channel + 1] - below)
    weights = np.zeros((bins, count))
    right, left = channel >= 0, channel + 1 < count
    weights[used[right], channel[right]] = falling[right]
    weights[used[left], channel[left] + 1] = 1.0 - falling[left]
    return weights


@kernel("Mfcc", fresh=True, heavy=lambda spectrogram, *_, **__: 0.05 * getattr(spectrogram, "size", 1))
def mfcc(
    spectrogram: Value,
    sample_rate: Value,
    *,
    upper_frequency_limit: float,
    lower_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Array:
    """Mel-frequency cepstral coefficients (float32 [channels, windows, coefficients]).

    spectrogram   squared magnitudes, float32 [channels, windows, frequencies]
    sample_rate   of the audio it was made from, int32, rank 0
    Raises InvalidArgumentError for limits and counts that make no filters.
    """
    spectrum, rate = to_array(spectrogram), int(_scalar(sample_rate, "sample_rate"))
    if spectrum.ndim != 3:
        raise InvalidArgumentError(f"spectrogram must be 3-dimensional, but got shape {list(spectrum.shape)}")
    bins = spectrum.shape[2]
    count, wanted = filterbank_channel_count, dct_coefficient_count
    low, high = lower_frequency_limit, upper_frequency_limit
    if bins < 2 or rate <= 0 or count < 1 or low < 0 or high <= low or not 1 <= wanted <= count:
        raise InvalidArgumentError(
            f"Mel filterbank initialization failed for {bins} channels, sample rate {rate}: {count} filters "
            f"from {low} to {high}, of which {wanted} coefficients"
        )
    filters = _filters(bins, rate, count, float(low), float(high))
    if filters is None:
        return np.zeros((*spectrum.shape[:2], wanted), np.float32)
    magnitudes = np.sqrt(spectrum.astype(np.float64))
    energies = np.log(np.maximum(product(np, magnitudes, filters), _FLOOR))
    rows = np.arange(wanted)[:, None] * (np.arange(count) + 0.5)
    cosines = np.sqrt(2.0 / count) * np.cos(np.pi / count * rows)
    return np.asarray(product(np, energies, cosines.T), np.float32)
