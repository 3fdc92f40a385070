"""What carries tensors between the parts of a graph that was cut."""

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
