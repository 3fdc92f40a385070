"""Fourier transforms."""

from __future__ import annotations

from flowengine.ops.registry import define

define("BatchFFT", inputs=["input: complex64"], outputs=["output: complex64"])
define("BatchFFT2D", inputs=["input: complex64"], outputs=["output: complex64"])
define("BatchFFT3D", inputs=["input: complex64"], outputs=["output: complex64"])
define("BatchIFFT", inputs=["input: complex64"], outputs=["output: complex64"])
define("BatchIFFT2D", inputs=["input: complex64"], outputs=["output: complex64"])
define("BatchIFFT3D", inputs=["input: complex64"], outputs=["output: complex64"])
define(
    "FFT",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define(
    "FFT2D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define(
    "FFT3D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define(
    "IFFT",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define(
    "IFFT2D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define(
    "IFFT3D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
)
define("IRFFT", inputs=["input: complex64", "fft_length: int32"], outputs=["output: float"])
define("IRFFT2D", inputs=["input: complex64", "fft_length: int32"], outputs=["output: float"])
define("IRFFT3D", inputs=["input: complex64", "fft_length: int32"], outputs=["output: float"])
define("RFFT", inputs=["input: float", "fft_length: int32"], outputs=["output: complex64"])
define("RFFT2D", inputs=["input: float", "fft_length: int32"], outputs=["output: complex64"])
define("RFFT3D", inputs=["input: float", "fft_length: int32"], outputs=["output: complex64"])
