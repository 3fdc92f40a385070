"""FlowEngine: an asynchronous dataflow engine that runs TensorFlow-1 graphs without TensorFlow.

    import flowengine as fe
    graph = fe.Graph.load("graph.pb")
    async with fe.Session(graph) as session:
        print(await session.run("y:0", {"x:0": 3.0}))

Names are resolved when first used, so that `import flowengine` starts no event loop and a part can be
used alone.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any
from typing import Final as _Final

from flowengine.core.targets import register_scheme as _register_scheme

if TYPE_CHECKING:
    from flowengine import anyio as anyio
    from flowengine import asyncio as asyncio
    from flowengine import blocking as blocking
    from flowengine import saved_model as saved_model
    from flowengine import train as train
    from flowengine.client import ctc as ctc
    from flowengine.client import embedding as embedding
    from flowengine.client import layers as layers
    from flowengine.client import losses as losses
    from flowengine.client import metrics as metrics
    from flowengine.client import sampled as sampled
    from flowengine.cluster.server import Server
    from flowengine.cluster.spec import ClusterSpec
    from flowengine.core import dtypes, errors
    from flowengine.core.config import Config, RunMetadata, RunOptions
    from flowengine.core.dtypes import DType
    from flowengine.core.shapes import TensorShape
    from flowengine.gradients.custom import custom_gradient
    from flowengine.gradients.differentiate import gradients as gradients
    from flowengine.gradients.jacobian import hessians, jacobian
    from flowengine.gradients.values import IndexedSlices as IndexedSlices
    from flowengine.graphs.graph import Graph
    from flowengine.graphs.tensor import Operation, Tensor
    from flowengine.graphs.variables import initializers as initializers
    from flowengine.graphs.variables import partitioners as partitioners
    from flowengine.graphs.variables.partitioned import PartitionedVariable as PartitionedVariable
    from flowengine.graphs.variables.scopes import VariableScope as VariableScope
    from flowengine.graphs.variables.variable import GraphVariable as GraphVariable
    from flowengine.ir.opdef import OpDef, OpRegistry
    from flowengine.kernels.registry import KernelRegistry
    from flowengine.resources.container import ResourceManager
    from flowengine.session import Session

__version__: _Final = "0.1.0"

#: {public name: (module, name in it, or None for the module itself)}
_PUBLIC: _Final[dict[str, tuple[str, str | None]]] = {
    "ClusterSpec": ("flowengine.cluster.spec", "ClusterSpec"),
    "Config": ("flowengine.core.config", "Config"),
    "DType": ("flowengine.core.dtypes", "DType"),
    "Graph": ("flowengine.graphs.graph", "Graph"),
    "GraphVariable": ("flowengine.graphs.variables.variable", "GraphVariable"),
    "IndexedSlices": ("flowengine.gradients.values", "IndexedSlices"),
    "KernelRegistry": ("flowengine.kernels.registry", "KernelRegistry"),
    "OpDef": ("flowengine.ir.opdef", "OpDef"),
    "OpRegistry": ("flowengine.ir.opdef", "OpRegistry"),
    "Operation": ("flowengine.graphs.tensor", "Operation"),
    "PartitionedVariable": ("flowengine.graphs.variables.partitioned", "PartitionedVariable"),
    "ResourceManager": ("flowengine.resources.container", "ResourceManager"),
    "RunMetadata": ("flowengine.core.config", "RunMetadata"),
    "RunOptions": ("flowengine.core.config", "RunOptions"),
    "Server": ("flowengine.cluster.server", "Server"),
    "Session": ("flowengine.session", "Session"),
    "Tensor": ("flowengine.graphs.tensor", "Tensor"),
    "TensorShape": ("flowengine.core.shapes", "TensorShape"),
    "VariableScope": ("flowengine.graphs.variables.scopes", "VariableScope"),
    "anyio": ("flowengine.anyio", None),
    "asyncio": ("flowengine.asyncio", None),
    "blocking": ("flowengine.blocking", None),
    "ctc": ("flowengine.client.ctc", None),
    "custom_gradient": ("flowengine.gradients.custom", "custom_gradient"),
    "dtypes": ("flowengine.core.dtypes", None),
    "embedding": ("flowengine.client.embedding", None),
    "errors": ("flowengine.core.errors", None),
    "gradients": ("flowengine.gradients", None),
    "hessians": ("flowengine.gradients.jacobian", "hessians"),
    "initializers": ("flowengine.graphs.variables.initializers", None),
    "jacobian": ("flowengine.gradients.jacobian", "jacobian"),
    "layers": ("flowengine.client.layers", None),
    "losses": ("flowengine.client.losses", None),
    "metrics": ("flowengine.client.metrics", None),
    "partitioners": ("flowengine.graphs.variables.partitioners", None),
    "sampled": ("flowengine.client.sampled", None),
    "saved_model": ("flowengine.saved_model", None),
    "train": ("flowengine.train", None),
}

__all__ = [
    "ClusterSpec",
    "Config",
    "DType",
    "Graph",
    "GraphVariable",
    "IndexedSlices",
    "KernelRegistry",
    "OpDef",
    "OpRegistry",
    "Operation",
    "PartitionedVariable",
    "ResourceManager",
    "RunMetadata",
    "RunOptions",
    "Server",
    "Session",
    "Tensor",
    "TensorShape",
    "VariableScope",
    "__version__",
    "anyio",
    "asyncio",
    "blocking",
    "ctc",
    "custom_gradient",
    "dtypes",
    "embedding",
    "errors",
    "gradients",
    "hessians",
    "initializers",
    "jacobian",
    "layers",
    "losses",
    "metrics",
    "partitioners",
    "sampled",
    "saved_model",
    "train",
]


def __getattr__(name: str) -> _Any:
    place = _PUBLIC.get(name)
    if place is None:
        raise AttributeError(f"module 'flowengine' has no attribute '{name}'")
    module = _importlib.import_module(place[0])
    value = module if place[1] is None else getattr(module, place[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names only: what completion is to offer."""
    return sorted(__all__)


def _open_flow(target: str, graph: _Any, config: _Any) -> _Any:
    """A session in another process; what it needs is imported with the first one."""
    from flowengine.cluster.remote import open_remote

    return open_remote(target, graph, config)


_register_scheme("flow", _open_flow)
