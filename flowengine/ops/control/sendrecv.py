"""The ops that carry tensors between the parts of a graph that was cut, and between memories."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

#: Which tensor goes from where to where.
RENDEZVOUS: Final = (
    "tensor_name, send_device: string; send_device_incarnation: int; recv_device: string; "
    "client_terminated: bool = false"
)

define("_HostRecv() -> tensor: tensor_type", "stateful; tensor_type: type", RENDEZVOUS, NotDifferentiable())
define("_HostSend(tensor: T)", "stateful; T: type", RENDEZVOUS, NotDifferentiable())
define("_Recv() -> tensor: tensor_type", "stateful; tensor_type: type", RENDEZVOUS, NotDifferentiable())
define("_Send(tensor: T)", "stateful; T: type", RENDEZVOUS, NotDifferentiable())
define("_Narrow(tensor: float) -> upper: uint16", NotDifferentiable(), shape=unchanged)
define("_Widen(upper: uint16) -> tensor: float", NotDifferentiable(), shape=unchanged)

#: `tensor_name` is what the tensor is called where it is counted; nothing where it is counted already.
_COPY: Final = "T: type; tensor_name: string"
define("_CopyToDevice(tensor: T) -> output: T", _COPY, NotDifferentiable(), shape=unchanged)
define("_CopyToHost(tensor: T) -> output: T", _COPY, NotDifferentiable(), shape=unchanged)
