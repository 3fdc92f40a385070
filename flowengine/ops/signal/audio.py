"""Audio: wave files, spectrograms, cepstral coefficients."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, ranked, scalars


@define(
    "AudioSpectrogram(input: float) -> spectrogram: float",
    "window_size, stride: int; magnitude_squared: bool = false",
    NotDifferentiable(),
)
def spectrogram(c: ShapeContext) -> Shapes:
    """(samples, channels) -> (channels, windows, frequencies)"""
    samples, channels = dims_of(ranked(c, 0, 2), 2)
    window, stride = c.attrs["window_size"], c.attrs["stride"]
    if window < 2 or stride < 1:
        raise InvalidArgumentError(f"window_size {window} must be at least 2, stride {stride} at least 1")
    count = None
    if samples is not None:
        count = 0 if samples < window else 1 + (samples - window) // stride
    # The transform is as long as the next power of two.
    frequencies = 1 + (1 << max(window - 1, 0).bit_length()) // 2
    return [TensorShape([channels, count, frequencies])]


@define(
    "DecodeWav(contents: string) -> audio: float, sample_rate: int32",
    "desired_channels, desired_samples: int = -1",
    NotDifferentiable(),
)
def decode_wav(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    samples, channels = (
        n if n >= 0 else None for n in (c.attrs["desired_samples"], c.attrs["desired_channels"])
    )
    return [TensorShape([samples, channels]), SCALAR]


define("EncodeWav(audio: float, sample_rate: int32) -> contents: string", NotDifferentiable(), shape=scalars)


@define(
    "Mfcc(spectrogram: float, sample_rate: int32) -> output: float",
    "upper_frequency_limit: float = 4000.0; lower_frequency_limit: float = 20.0",
    "filterbank_channel_count: int = 40; dct_coefficient_count: int = 13",
    NotDifferentiable(),
)
def mfcc(c: ShapeContext) -> Shapes:
    channels, windows, _ = dims_of(ranked(c, 0, 3), 3)
    return [TensorShape([channels, windows, c.attrs["dct_coefficient_count"]])]
