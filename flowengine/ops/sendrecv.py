"""Passing a tensor between partitions."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define(
    "_HostRecv",
    outputs=["tensor: tensor_type"],
    attrs=[
        "tensor_type: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ],
    is_stateful=True,
)
define(
    "_HostSend",
    inputs=["tensor: T"],
    attrs=[
        "T: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ],
    is_stateful=True,
)
define(
    "_Recv",
    outputs=["tensor: tensor_type"],
    attrs=[
        "tensor_type: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ],
    is_stateful=True,
)
define(
    "_Send",
    inputs=["tensor: T"],
    attrs=[
        "T: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ],
    is_stateful=True,
)
define("_Narrow", inputs=["tensor: float"], outputs=["upper: uint16"], shape=unchanged)
define("_Widen", inputs=["upper: uint16"], outputs=["tensor: float"], shape=unchanged)
