"""Conv2D, Conv3D and their gradients of nodes by cuDNN: `kernels/cuda/convolutions.py`.

A device's handle is made with its first convolution. What plans want beside their tensors comes from the
device's pool, and goes back to it once the work is enqueued.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.dtypes import float16, float32, float64
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import Device
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import cudnn
from flowengine.kernels.cuda.convolution_plans import EngineRules
from flowengine.kernels.cuda.convolutions import CardConvolutions, PlanStore
from flowengine.kernels.cuda.cudnn import CudnnHandle
from flowengine.kernels.cuda.serving import serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher
from flowengine.kernels.nn import convolution
from flowengine.kernels.nn.conv_products import Products

_TYPES: Final = {"T": (float16, float32, float64)}
#: What a device keeps them as.
_KEPT: Final = "convolutions"


class _DeviceConvolutions:
    """The handle of one device, on its stream of work, and its plans."""

    def __init__(self, launcher: SessionLauncher) -> None:
        device = launcher.device
        library = cudnn.cudnn()
        settings = device.settings
        rules = EngineRules(settings.tensor_float_32, settings.deterministic)
        self.handle: Final = CudnnHandle(library, device.xp.cuda.get_current_stream().ptr)
        self.store: Final = PlanStore(library, self.handle.card(), rules)
        self.convolutions: Final = CardConvolutions(
            self.store, self.handle, launcher, launcher.xp, Products(launcher.xp)
        )
        weakref.finalize(self, self.handle.close).atexit = False


def convolutions_of(launcher: SessionLauncher) -> CardConvolutions:
    """Return the convolutions of a launcher's device; call it within the device's `computing()`."""
    kept = launcher.device.kept
    found = kept.get(_KEPT)
    if found is None:
        found = kept.setdefault(_KEPT, _DeviceConvolutions(launcher))
    assert isinstance(found, _DeviceConvolutions)
    return found.convolutions


def left_out(device: Device) -> tuple[str, ...]:
    """List the calls that cuDNN has had no engine for so far, each with the reason.

    Those calls are CuPy's; what follows a convolution and is left out is a launch of its own.
    """
    found = device.kept.get(_KEPT) if isinstance(device, CudaDevice) else None
    return tuple(found.store.left_out.values()) if isinstance(found, _DeviceConvolutions) else ()


@serves("Conv2D", "Conv3D", family="bias", types=_TYPES, needs="cudnn")
def convolution_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(x: Array, filters: Array) -> Any:
        return convolution.convolve(launcher.xp, convolutions_of(launcher), x, filters, node=node)

    return compute


@serves("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", family="bias", types=_TYPES, needs="cudnn")
def filter_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(x: Array, filter_sizes: Array, out_backprop: Array) -> Any:
        products = convolutions_of(launcher)
        return convolution.backprop_filter(launcher.xp, products, x, filter_sizes, out_backprop, node=node)

    return compute


@serves("Conv2DBackpropInput", "Conv3DBackpropInputV2", family="bias", types=_TYPES, needs="cudnn")
def input_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(input_sizes: Array, filters: Array, out_backprop: Array) -> Any:
        products = convolutions_of(launcher)
        return convolution.backprop_input(
            launcher.xp, products, input_sizes, filters, out_backprop, node=node
        )

    return compute


__all__ = [
    "convolution_kernel",
    "convolutions_of",
    "filter_gradient_kernel",
    "input_gradient_kernel",
    "left_out",
]
