"""WAV files as tensors: samples as TensorFlow's DecodeWav reads them, from 16-bit PCM."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from flowengine.cli.failure import printable
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape

AUDIO_SUFFIXES: Final = (".wav",)
#: DecodeWav divides 16-bit samples by this.
_SCALE: Final = 32768


def is_audio(data: bytes) -> bool:
    """Whether these bytes begin like a WAV file."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def read_audio(data: bytes, dtype: DType | None, shape: TensorShape, source: str) -> Any:
    """Read a WAV file as a tensor of this shape takes it, and print its rate on standard error.

    returns   float32 between -1 and 1, or the 16-bit samples for a tensor of integers: (samples, channels),
              or (samples,) of one channel where the tensor has no dimension for it. A batch dimension of 1 is
              in front for a tensor of one dimension more

    Raises ValueError for a file that is not 16-bit PCM, and for several channels in a tensor that takes one.
    """
    from flowengine.kernels.signal.audio import decode_wav

    try:
        samples, rate = decode_wav(data, desired_channels=-1, desired_samples=-1)
    except InvalidArgumentError as error:
        raise ValueError(f"it is no WAV file of 16-bit PCM ({error.message})") from error
    count, channels = samples.shape
    print(
        f"{printable(source)}: {count} samples of {channels} channel{'s' if channels > 1 else ''}, "
        f"{int(rate)} a second",
        file=sys.stderr,
        flush=True,
    )
    if dtype is not None and dtype.is_integer:
        samples = np.round(samples * _SCALE).astype(np.int16)
    return _shaped(samples, shape)


def _shaped(samples: Any, shape: TensorShape) -> Any:
    dims, channels = shape.dims, samples.shape[1]
    if dims is None or len(dims) == 0:
        return samples
    # (samples, channels) where the last dimension may be that; without channels otherwise.
    if len(dims) > 1 and (dims[-1] == channels or (dims[-1] is None and channels > 1) or len(dims) > 2):
        shaped = samples
    elif channels > 1:
        raise ValueError(f"it has {channels} channels, and the tensor {shape} takes one")
    else:
        shaped = samples[:, 0]
    return shaped[np.newaxis] if shaped.ndim == len(dims) - 1 else shaped


__all__ = ["AUDIO_SUFFIXES", "is_audio", "read_audio"]
