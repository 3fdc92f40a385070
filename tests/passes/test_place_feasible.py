"""Constraints are met or refused with the nodes and their demands; soft placement relaxes them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flowengine.kernels.load
from flowengine.core.dtypes import bfloat16, string
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.core.names import DeviceName
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.place.device_profiles import Offer, cpu_offers
from flowengine.passes.place.place import Placement, PlaceRequest, place

KERNELS = flowengine.kernels.load.load_all()


def cpu_kernels() -> KernelRegistry:
    """This package's kernels, those for any device as if they were for CPUs only."""
    registry = KernelRegistry()
    for kernel in KERNELS:
        registry.register(replace(kernel, device="CPU"))
    return registry


def gpu_kernels() -> KernelRegistry:
    """The same, and two for a GPU."""
    registry = KernelRegistry(parent=cpu_kernels())

    @registry.kernel("MatMul", device="GPU", types={"T": ["float32"]})
    def mat_mul(a: Any, b: Any) -> Any:
        return a @ b

    @registry.kernel("Neg", device="GPU")
    def neg(x: Any) -> Any:
        return -x

    return registry


def offers(*names: str, **limits: int) -> list[Offer]:
    found = []
    for name in names:
        full = DeviceName("localhost", 0, 0).merge_with(DeviceName.parse(name))
        found.append(Offer(full, memory_limit_bytes=limits.get(str(full.type))))
    return found


def placed(
    g: NodeGraph, devices: list[Offer], kernels: KernelRegistry = KERNELS, **request: Any
) -> Placement:
    return place(g, devices, kernels=kernels, request=PlaceRequest(**request))


def tail(placement: Placement, name: str) -> str:
    return placement.device_of[name].rsplit("device:", 1)[1]


def test_partial_constraints() -> None:
    g = Graph()
    with g.device("/device:GPU:*"):
        g.ops.Neg(g.placeholder("float32", [2]), name="any_gpu")
    with g.device("/job:worker/task:17"):
        g.ops.Neg(g.constant([1.0], name="there"), name="any_of_task")
    with g.device("/job:worker/task:3/cpu:1"):
        g.ops.Exp(g.constant([1.0]), name="one")
    names = [
        f"/job:worker/replica:0/task:{t}/device:{d}" for t in (3, 17) for d in ("CPU:0", "CPU:1", "GPU:0")
    ]
    devices = [Offer(DeviceName.parse(name)) for name in names]
    placement = placed(g, devices, gpu_kernels())
    assert DeviceName.parse(placement.device_of["any_gpu"]).type == "GPU"
    assert DeviceName.parse(placement.device_of["any_of_task"]).task == 17
    assert tail(placement, "one") == "CPU:1"
    assert placement.reasons["one"] == "asked for /job:worker/task:3/device:CPU:1"


def test_a_node_goes_where_its_kernel_is_and_by_type() -> None:
    g = Graph()
    x = g.placeholder("float32", [4, 4], name="x")
    z = g.placeholder("int32", [4, 4], name="z")
    with g.device("/device:GPU:0"):
        g.ops.MatMul(x, x, name="single")
    g.ops.MatMul(z, z, name="whole")
    g.ops.Exp(x, name="exp")
    placement = placed(g, offers("/cpu:0", "/gpu:0"), gpu_kernels())
    assert tail(placement, "single") == "GPU:0"
    assert tail(placement, "whole") == "CPU:0"
    assert placement.reasons["exp"] == "the only device that it can be on"
    assert placement.reasons["whole"] == ("the only device that it can be on: on GPU it takes T in {float32}")


def test_a_kernel_for_any_device_serves_what_a_device_holds() -> None:
    """A GPU without strings, and with bfloat16 only for kernels that name it."""
    g = Graph()
    with g.device("/device:GPU:0"):
        g.ops.Exp(g.placeholder("float32", [4]), name="exp")
    g.ops.Neg(g.placeholder("bfloat16", [4]), name="unlisted")
    with g.device("/device:GPU:0"):
        g.ops.Sigmoid(g.placeholder("bfloat16", [4]), name="listed")
    g.ops.Pack([g.placeholder("string", [4])], name="names")
    name = DeviceName("localhost", 0, 0, "GPU", 0)
    gpu = Offer(name, 100.0, lacks=frozenset([string]), listed_only=frozenset([bfloat16]))
    placement = placed(g, [*offers("/cpu:0"), gpu])
    assert [tail(placement, each) for each in ("exp", "listed")] == ["GPU:0"] * 2
    assert [tail(placement, each) for each in ("unlisted", "names")] == ["CPU:0"] * 2
    only = "the only device that it can be on: GPU holds no "
    assert placement.reasons["unlisted"] == only + "bfloat16"
    assert placement.reasons["names"] == only + "string"
    with g.device("/device:GPU:0"):
        g.ops.Neg(g.placeholder("bfloat16", [4]), name="refused")
    with pytest.raises(InvalidArgumentError, match=r"for CPU only \(GPU holds no bfloat16\)"):
        placed(g, [*offers("/cpu:0"), gpu])
    placement = placed(g, [*offers("/cpu:0"), gpu], soft=True)
    assert placement.relaxed == {"refused": "GPU holds no bfloat16"}


def test_an_impossible_constraint_names_two_nodes_and_why_they_are_together() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/cpu:0"):
        g.ops.Neg(x, name="v")
    g.ops["Neg"](x, name="between", _class=[b"loc:@v"])
    g.ops["Neg"](x, name="other", _class=[b"loc:@v"])
    with g.device("/cpu:1"):
        g.ops["Neg"](x, name="step", _class=[b"loc:@between"])
    with pytest.raises(InvalidArgumentError) as caught:
        placed(g, cpu_offers(2))
    text = str(caught.value)
    for part in (
        "'v' asks for /device:CPU:0 and 'step' asks for /device:CPU:1, but they must be on one device",
        "because 'between' asks to be with 'v'; 'step' asks to be with 'between'. Devices: ",
        "CPU:1. Change a demand",
    ):
        assert part in text
    assert "'other'" not in text
    assert caught.value.node_name == "step"


def test_a_node_that_passes_removed_is_one_of_the_two() -> None:
    g = Graph()
    with g.device("/cpu:1"):
        g.ops["Neg"](g.constant(1.0), name="step", _class=[b"loc:@gone"])
    told = (
        "'gone' asks for /device:CPU:0, but they must be on one device, because 'step' asks to be with 'gone'"
    )
    demands = {"step": DeviceName.parse("/cpu:1"), "gone": DeviceName.parse("/cpu:0")}
    with pytest.raises(InvalidArgumentError, match=told) as caught:
        placed(g, cpu_offers(2), demands=demands)
    assert caught.value.node_name == "step"


def test_three_nodes_that_cannot_be_together_are_all_named() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/job:worker"):
        g.ops.Neg(x, name="a")
    for name, device in (("b", "/task:1"), ("c", "/device:CPU:0")):
        with g.device(device):
            g.ops["Neg"](x, name=name, _class=[b"loc:@a"])
    devices = [
        Offer(DeviceName.parse(text).merge_with(DeviceName("ps", 0, 0, "CPU", 0)))
        for text in ("/job:worker/task:1/device:CPU:1", "/job:worker/task:0", "/task:1")
    ]
    with pytest.raises(InvalidArgumentError, match="one device cannot be placed: 'a', 'b', 'c': "):
        placed(g, devices)


def _with_resource(worker: str = "/cpu:1") -> Graph:
    g = Graph()
    with g.device("/cpu:0"):
        v = g.ops.VarHandleOp(shape=[], dtype="float32", name="v")
        q = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="q")
    with g.device(worker):
        g.ops.AssignAddVariableOp(v, np.float32(1), name="step")
        passed = g.ops.Identity(v, name="passed")
        g.ops.ReadVariableOp(passed, dtype="float32", name="read")
        g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    return g


def test_an_op_goes_to_its_resource(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flowengine.placement"):
        placement = placed(_with_resource(), cpu_offers(2))
    for name in ("step", "passed", "read", "take"):
        assert tail(placement, name) == "CPU:0"
        resource = "q" if name == "take" else "v"
        told = f"asked for /device:CPU:1, but works on '{resource}', which asks for /device:CPU:0"
        assert placement.reasons[name] == told
        assert f"'{name}' {told}: it goes there" in caplog.messages
    assert not placement.relaxed


def test_parts_that_a_resource_leaves_open_are_as_its_op_asks() -> None:
    g = Graph()
    with g.device("/job:ps"):
        v = g.ops.VarHandleOp(shape=[], dtype="float32", name="v")
    with g.device("/job:worker/task:1/device:CPU:0"):
        g.ops.AssignAddVariableOp(v, np.float32(1), name="step")
    devices = [Offer(DeviceName(job, 0, task, "CPU", 0)) for job in ("ps", "worker") for task in (0, 1)]
    placement = placed(g, devices)
    assert placement.device_of["v"] == placement.device_of["step"] == "/job:ps/replica:0/task:1/device:CPU:0"


def test_each_of_two_resources_counts() -> None:
    g = Graph()
    with g.device("/job:ps"):
        v = g.ops.VarHandleOp(shape=[], dtype="float32", name="v")
    with g.device("/device:CPU:1"):
        slot = g.ops.VarHandleOp(shape=[], dtype="float32", name="slot")
    with g.device("/job:worker/device:CPU:0"):
        g.ops.ResourceApplyMomentum(v, slot, np.float32(1), np.float32(1), np.float32(1), name="step")
    devices = [Offer(DeviceName(job, 0, 0, "CPU", index)) for job in ("ps", "worker") for index in (0, 1)]
    placement = placed(g, devices)
    assert {placement.device_of[name] for name in ("v", "slot", "step")} == {
        "/job:ps/replica:0/task:0/device:CPU:1"
    }


def test_a_resource_without_a_demand_goes_to_its_op() -> None:
    g = Graph()
    v = g.ops.VarHandleOp(shape=[], dtype="float32", name="v")
    with g.device("/cpu:1"):
        g.ops.AssignAddVariableOp(v, np.float32(1), name="step")
    placement = placed(g, cpu_offers(2))
    assert tail(placement, "v") == tail(placement, "step") == "CPU:1"


def test_a_device_that_is_not_there_and_one_without_a_kernel() -> None:
    g = Graph()
    x = g.constant([1.0])
    with g.device("/device:GPU:0"):
        g.ops.Exp(x, name="y")
    with pytest.raises(InvalidArgumentError, match=r"'y' cannot be placed: 'y' asks for /device:GPU:0"):
        placed(g, cpu_offers(2))
    with pytest.raises(InvalidArgumentError, match=r"'y' \(Exp\) has a kernel for CPU only"):
        placed(g, offers("/cpu:0", "/gpu:0"), gpu_kernels())


def test_soft_placement_comes_as_near_as_it_can_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    g = Graph()
    x = g.constant([1.0])
    with g.device("/job:worker/task:1/device:GPU:0"):
        g.ops.Exp(x, name="y")
    with g.device("/job:worker/task:1/device:CPU:7"):
        g.ops.Exp(x, name="z")
    devices = [Offer(DeviceName("worker", 0, task, "CPU", 0)) for task in (0, 1)]
    with caplog.at_level(logging.WARNING, "flowengine.placement"):
        placement = placed(g, devices, soft=True)
    assert placement.device_of["y"] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert placement.device_of["z"] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert placement.relaxed == {"y": "no such device", "z": "no such device"}
    assert "'y' asks for /job:worker/task:1/device:GPU:0 (no such device)" in caplog.text
    assert "soft placement" in placement.reasons["y"]


def test_soft_placement_of_a_group_with_two_minds_keeps_it_together() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/cpu:0"):
        g.ops.Neg(x, name="v")
    with g.device("/cpu:1"):
        g.ops["Neg"](x, name="step", _class=[b"loc:@v"])
    placement = placed(g, cpu_offers(2), soft=True)
    assert tail(placement, "v") == tail(placement, "step") == "CPU:0"
    assert placement.relaxed == {"step": "not possible for what is placed with it"}


def test_the_anchor_that_a_pass_removed_still_says_where() -> None:
    g = Graph()
    g.ops["Exp"](g.constant([1.0]), name="y", _class=[b"loc:@gone"])
    placement = placed(g, cpu_offers(3), demands={"gone": DeviceName.parse("/cpu:2")})
    assert tail(placement, "y") == "CPU:2"


def test_an_op_without_any_kernel_is_for_the_plan_to_name() -> None:
    g = Graph.from_graph_def("node { name: 'odd' op: 'NobodyKnowsThis' }")
    assert tail(placed(g, cpu_offers(2)), "odd") == "CPU:0"


def test_a_device_that_cannot_be_read() -> None:
    g = NodeGraph([Node("y", "NoOp", device="/gpu:two")])
    with pytest.raises(InvalidArgumentError, match=r"cannot read 'gpu:two'") as caught:
        placed(g, cpu_offers(2))
    assert caught.value.node_name == "y"


def test_no_device_at_all() -> None:
    with pytest.raises(InvalidArgumentError, match="no device"):
        placed(Graph(), [])


def test_variables_are_spread_over_memory_that_holds_them() -> None:
    g = Graph()
    for i in range(6):
        g.ops.VariableV2(shape=[1000], dtype="float32", name=f"v{i}")
    devices = [Offer(offer.name, memory_limit_bytes=9000) for offer in cpu_offers(3)]
    placement = placed(g, devices)
    places = [placement.device_of[f"v{i}"] for i in range(6)]
    assert sorted(places.count(str(offer.name)) for offer in devices) == [2, 2, 2]


def test_what_fits_nowhere_names_the_largest() -> None:
    g = Graph()
    g.ops.VariableV2(shape=[1000], dtype="float32", name="small")
    g.ops.VariableV2(shape=[5000], dtype="float32", name="large")
    devices = [Offer(offer.name, memory_limit_bytes=9000) for offer in cpu_offers(2)]
    with pytest.raises(ResourceExhaustedError, match=r"'large' and its group keep 20,000 bytes, 'small'"):
        placed(g, devices)
    assert placed(g, offers("/cpu:0", "/cpu:1")).device_of


def test_state_stays_at_home_unless_what_it_belongs_to_has_moved() -> None:
    g = Graph()
    for name in ("v", "w"):
        g.ops.VarHandleOp(shape=[2], dtype="float32", name=name)
    homes = {"v": str(cpu_offers(3)[2].name), "w": str(cpu_offers(3)[1].name)}
    # What has left the graph, or was on a device that is gone, says nothing of those that follow.
    gone = {"left": homes["v"], "x": "/job:gone/replica:0/task:0/device:CPU:0"}
    placement = placed(g, cpu_offers(3), pinned={**gone, **homes})
    assert (tail(placement, "v"), tail(placement, "w")) == ("CPU:2", "CPU:1")
    assert placement.reasons["v"] == "its state is there"
    v, w = g.tensor("v:0"), g.tensor("w:0")
    g.ops.ResourceApplyMomentum(v, w, 0.1, [1.0, 1.0], 0.9, name="train")
    placement = placed(g, cpu_offers(3), pinned=homes)
    assert tail(placement, "v") == tail(placement, "w") == tail(placement, "train") == "CPU:2"
    placement = placed(g, cpu_offers(3), pinned=homes, demands={"train": DeviceName.parse("/cpu:0")})
    assert tail(placement, "v") == "CPU:0"


@pytest.mark.parametrize("op", ["Identity", "StopGradient", "PreventGradient"])
def test_what_only_hands_on_goes_where_it_is_wanted(op: str) -> None:
    g = Graph()
    with g.device("/device:GPU:0"):
        value = g.ops.Neg(g.placeholder("float32", [2], name="x"), name="n")
        getattr(g.ops, op)(value, name="y")
    placement = placed(g, offers("CPU:0", "GPU:0"), gpu_kernels())
    assert tail(placement, "y") == "GPU:0"


def test_a_reason_by_cost_says_when_the_step_would_end_elsewhere() -> None:
    g = Graph()
    for side in ("a", "b"):
        value = g.placeholder("float32", [400, 400], name=f"{side}_fed")
        for number in range(3):
            value = g.ops.MatMul(value, value, name=f"{side}{number}")
    placement = placed(g, cpu_offers(2), effort=0.0)
    reasons = {name: placement.reasons[name] for name in (f"{side}{n}" for side in "ab" for n in range(3))}
    compared = {name: why for name, why in reasons.items() if why.startswith("ends first there, at ")}
    assert {tail(placement, name) for name in compared} == {"CPU:0", "CPU:1"}
    for name, why in compared.items():
        other = {"CPU:0": "CPU:1", "CPU:1": "CPU:0"}[tail(placement, name)]
        assert f" ({other}: " in why, (name, why)
