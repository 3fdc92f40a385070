"""Audio: wave files, spectrograms, cepstral coefficients."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AudioSpectrogram",
    inputs=["input: float"],
    outputs=["spectrogram: float"],
    attrs=["window_size: int", "stride: int", "magnitude_squared: bool = false"],
)
define(
    "DecodeWav",
    inputs=["contents: string"],
    outputs=["audio: float", "sample_rate: int32"],
    attrs=["desired_channels: int = -1", "desired_samples: int = -1"],
)
define("EncodeWav", inputs=["audio: float", "sample_rate: int32"], outputs=["contents: string"])
define(
    "Mfcc",
    inputs=["spectrogram: float", "sample_rate: int32"],
    outputs=["output: float"],
    attrs=[
        "upper_frequency_limit: float = 4000.0",
        "lower_frequency_limit: float = 20.0",
        "filterbank_channel_count: int = 40",
        "dct_coefficient_count: int = 13",
    ],
)
