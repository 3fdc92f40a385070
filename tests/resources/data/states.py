"""The state of an iterator, written and read as the ops do that save and restore it."""

from __future__ import annotations

from typing import Any

from flowengine.ir.tensorproto import VariantData
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.dataset_graphs import graph_of
from flowengine.kernels.data.inspecting import dataset_of_graph
from flowengine.resources.container import StepContainer
from flowengine.resources.data.dataset import DatasetValue
from flowengine.resources.data.state_coding import decode_state, encode_state


def state_written(state: Any) -> VariantData:
    return encode_state(state, graph_of)


def state_read(value: VariantData, dataset: DatasetValue) -> Any:
    """Return the saved iterator, its datasets rebuilt with all that a dataset may use."""
    origin = dataset.origin
    context = KernelContext(
        resources=origin.resources,
        step_container=StepContainer(),
        files=origin.files,
        functions=origin.caller,
    )
    return decode_state(value, lambda graph: dataset_of_graph(graph, context, origin.caller))
