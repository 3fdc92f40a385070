"""FlowEngine runs TensorFlow graphs without TensorFlow.

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

from flowengine.core.public_names.missing import missing_name as _missing_name
from flowengine.core.targets import register_scheme as _register_scheme

if TYPE_CHECKING:
    from flowengine import anyio as anyio
    from flowengine import asyncio as asyncio
    from flowengine import blocking as blocking
    from flowengine import data as data
    from flowengine import saved_model as saved_model
    from flowengine import serving as serving
    from flowengine import testing as testing
    from flowengine import train as train
    from flowengine.client import ctc as ctc
    from flowengine.client import embedding as embedding
    from flowengine.client import layers as layers
    from flowengine.client import losses as losses
    from flowengine.client import metrics as metrics
    from flowengine.client import optimizers as optimizers
    from flowengine.client import regularizers as regularizers
    from flowengine.client import rnn as rnn
    from flowengine.client import sampled as sampled
    from flowengine.client import schedules as schedules
    from flowengine.client.averages import ExponentialMovingAverage as ExponentialMovingAverage
    from flowengine.client.clipping import clip_by_average_norm as clip_by_average_norm
    from flowengine.client.clipping import clip_by_global_norm as clip_by_global_norm
    from flowengine.client.clipping import clip_by_norm as clip_by_norm
    from flowengine.client.clipping import clip_by_value as clip_by_value
    from flowengine.client.clipping import global_norm as global_norm
    from flowengine.cluster.server import Server as Server
    from flowengine.cluster.spec import ClusterSpec as ClusterSpec
    from flowengine.core import dtypes as dtypes
    from flowengine.core import errors as errors
    from flowengine.core.config import Config as Config
    from flowengine.core.dtypes import DType as DType
    from flowengine.core.files.access import FileAccess as FileAccess
    from flowengine.core.run_options import RunOptions as RunOptions
    from flowengine.core.shapes import TensorShape as TensorShape
    from flowengine.functions.definitions import LibraryFunction as LibraryFunction
    from flowengine.functions.definitions import function as function
    from flowengine.gradients.custom import custom_gradient as custom_gradient
    from flowengine.gradients.differentiate import gradients as gradients
    from flowengine.gradients.jacobian import hessians as hessians
    from flowengine.gradients.jacobian import jacobian as jacobian
    from flowengine.gradients.recomputation import recompute_grad as recompute_grad
    from flowengine.gradients.values import IndexedSlices as IndexedSlices
    from flowengine.graphs.control.tensor_array import GraphTensorArray as GraphTensorArray
    from flowengine.graphs.functions import nn as nn
    from flowengine.graphs.functions.array import *
    from flowengine.graphs.functions.compare import *
    from flowengine.graphs.functions.complexes import *
    from flowengine.graphs.functions.indexing import *
    from flowengine.graphs.functions.linalg import *
    from flowengine.graphs.functions.math import *
    from flowengine.graphs.functions.random import *
    from flowengine.graphs.functions.reductions import *
    from flowengine.graphs.functions.special import *
    from flowengine.graphs.functions.strings import *
    from flowengine.graphs.graph import Graph as Graph
    from flowengine.graphs.opaque_graphs import GraphBytes as GraphBytes
    from flowengine.graphs.sparse import RaggedTensor as RaggedTensor
    from flowengine.graphs.sparse import SparseTensor as SparseTensor
    from flowengine.graphs.sparse import sparse_placeholder as sparse_placeholder
    from flowengine.graphs.tensor import Operation as Operation
    from flowengine.graphs.tensor import Tensor as Tensor
    from flowengine.graphs.variables import initializers as initializers
    from flowengine.graphs.variables import partitioners as partitioners
    from flowengine.graphs.variables.partitioned import PartitionedVariable as PartitionedVariable
    from flowengine.graphs.variables.scopes import VariableScope as VariableScope
    from flowengine.graphs.variables.variable import GraphVariable as GraphVariable
    from flowengine.ir.opdef import OpDef as OpDef
    from flowengine.ir.opdef import OpRegistry as OpRegistry
    from flowengine.kernels.registry import KernelRegistry as KernelRegistry
    from flowengine.resources.container import ResourceManager as ResourceManager
    from flowengine.runtime.run_metadata import RunMetadata as RunMetadata
    from flowengine.runtime.tracing.events import TraceEvent as TraceEvent
    from flowengine.runtime.tracing.joint_trace import TracedTask as TracedTask
    from flowengine.runtime.tracing.profile import ProfileEntry as ProfileEntry
    from flowengine.runtime.tracing.profile import StepProfile as StepProfile
    from flowengine.saved_model.freezing import freeze as freeze
    from flowengine.session import Session as Session
    from flowengine.tools import debugging as debug  # noqa: F401
    from flowengine.tools import summaries as summary  # noqa: F401

__version__: _Final = "0.1.0"

#: {public name: (module, name in it, or None for the module itself)}
_PUBLIC: _Final[dict[str, tuple[str, str | None]]] = {
    "ClusterSpec": ("flowengine.cluster.spec", "ClusterSpec"),
    "Config": ("flowengine.core.config", "Config"),
    "FileAccess": ("flowengine.core.files.access", "FileAccess"),
    "DType": ("flowengine.core.dtypes", "DType"),
    "ExponentialMovingAverage": ("flowengine.client.averages", "ExponentialMovingAverage"),
    "Graph": ("flowengine.graphs.graph", "Graph"),
    "GraphBytes": ("flowengine.graphs.opaque_graphs", "GraphBytes"),
    "LibraryFunction": ("flowengine.functions.definitions", "LibraryFunction"),
    "GraphTensorArray": ("flowengine.graphs.control.tensor_array", "GraphTensorArray"),
    "GraphVariable": ("flowengine.graphs.variables.variable", "GraphVariable"),
    "IndexedSlices": ("flowengine.gradients.values", "IndexedSlices"),
    "KernelRegistry": ("flowengine.kernels.registry", "KernelRegistry"),
    "OpDef": ("flowengine.ir.opdef", "OpDef"),
    "OpRegistry": ("flowengine.ir.opdef", "OpRegistry"),
    "Operation": ("flowengine.graphs.tensor", "Operation"),
    "StepProfile": ("flowengine.runtime.tracing.profile", "StepProfile"),
    "ProfileEntry": ("flowengine.runtime.tracing.profile", "ProfileEntry"),
    "PartitionedVariable": ("flowengine.graphs.variables.partitioned", "PartitionedVariable"),
    "ResourceManager": ("flowengine.resources.container", "ResourceManager"),
    "RunMetadata": ("flowengine.runtime.run_metadata", "RunMetadata"),
    "RunOptions": ("flowengine.core.run_options", "RunOptions"),
    "RaggedTensor": ("flowengine.graphs.sparse", "RaggedTensor"),
    "Server": ("flowengine.cluster.server", "Server"),
    "Session": ("flowengine.session", "Session"),
    "SparseTensor": ("flowengine.graphs.sparse", "SparseTensor"),
    "Tensor": ("flowengine.graphs.tensor", "Tensor"),
    "TraceEvent": ("flowengine.runtime.tracing.events", "TraceEvent"),
    "TracedTask": ("flowengine.runtime.tracing.joint_trace", "TracedTask"),
    "TensorShape": ("flowengine.core.shapes", "TensorShape"),
    "VariableScope": ("flowengine.graphs.variables.scopes", "VariableScope"),
    "anyio": ("flowengine.anyio", None),
    "asyncio": ("flowengine.asyncio", None),
    "blocking": ("flowengine.blocking", None),
    "clip_by_average_norm": ("flowengine.client.clipping", "clip_by_average_norm"),
    "clip_by_global_norm": ("flowengine.client.clipping", "clip_by_global_norm"),
    "clip_by_norm": ("flowengine.client.clipping", "clip_by_norm"),
    "clip_by_value": ("flowengine.client.clipping", "clip_by_value"),
    "ctc": ("flowengine.client.ctc", None),
    "custom_gradient": ("flowengine.gradients.custom", "custom_gradient"),
    "data": ("flowengine.data", None),
    "dtypes": ("flowengine.core.dtypes", None),
    "embedding": ("flowengine.client.embedding", None),
    "errors": ("flowengine.core.errors", None),
    "freeze": ("flowengine.saved_model.freezing", "freeze"),
    "function": ("flowengine.functions.definitions", "function"),
    "global_norm": ("flowengine.client.clipping", "global_norm"),
    "gradients": ("flowengine.gradients", None),
    "hessians": ("flowengine.gradients.jacobian", "hessians"),
    "initializers": ("flowengine.graphs.variables.initializers", None),
    "jacobian": ("flowengine.gradients.jacobian", "jacobian"),
    "layers": ("flowengine.client.layers", None),
    "losses": ("flowengine.client.losses", None),
    "metrics": ("flowengine.client.metrics", None),
    "nn": ("flowengine.graphs.functions.nn", None),
    "optimizers": ("flowengine.client.optimizers", None),
    "sparse_placeholder": ("flowengine.graphs.sparse", "sparse_placeholder"),
    "partitioners": ("flowengine.graphs.variables.partitioners", None),
    "regularizers": ("flowengine.client.regularizers", None),
    "rnn": ("flowengine.client.rnn", None),
    "sampled": ("flowengine.client.sampled", None),
    "recompute_grad": ("flowengine.gradients.recomputation", "recompute_grad"),
    "saved_model": ("flowengine.saved_model", None),
    "schedules": ("flowengine.client.schedules", None),
    "serving": ("flowengine.serving", None),
    "debug": ("flowengine.tools.debugging", None),
    "summary": ("flowengine.tools.summaries", None),
    "testing": ("flowengine.testing", None),
    "train": ("flowengine.train", None),
}

#: Functions of tensors: {module of graphs/functions: names}. Those of networks are in `nn`.
_FUNCTIONS: _Final[dict[str, str]] = {
    "complexes": "angle complex conj imag real",
    "special": "betainc digamma erf erfc igamma igammac lgamma polygamma xdivy xlogy zeta",
    "math": "abs acos acosh add add_n asin asinh atan atan2 atanh cast ceil "
    "cos cosh cumprod cumsum div_no_nan divide exp expm1 floor "
    "floordiv is_finite is_inf is_nan log log1p maximum minimum mod "
    "multiply multiply_no_nan negative pow reciprocal rint round rsqrt sigmoid "
    "sign sin sinh sqrt square squared_difference subtract tan tanh truediv",
    "compare": "equal greater greater_equal less less_equal logical_and logical_not logical_or logical_xor "
    "not_equal where",
    "reductions": "argmax argmin bincount count_nonzero reduce_all reduce_any reduce_euclidean_norm "
    "reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_std reduce_sum "
    "reduce_variance segment_max segment_mean segment_sum unsorted_segment_max "
    "unsorted_segment_mean unsorted_segment_sum",
    "linalg": "cholesky cholesky_solve cross diag diag_part einsum eye lin_space matmul matrix_band_part "
    "matrix_determinant matrix_diag matrix_diag_part matrix_inverse matrix_set_diag "
    "matrix_solve matrix_transpose matrix_triangular_solve norm qr self_adjoint_eig svd "
    "tensordot trace",
    "array": "bitcast broadcast_to concat depth_to_space expand_dims fill identity meshgrid ones "
    "ones_like pad range rank reshape reverse reverse_sequence roll shape size slice "
    "space_to_depth split squeeze stack stop_gradient strided_slice tile transpose unstack "
    "zeros zeros_like",
    "indexing": "argsort boolean_mask dynamic_partition dynamic_stitch gather gather_nd in_top_k "
    "invert_permutation one_hot scatter_nd searchsorted sequence_mask setdiff1d sort "
    "tensor_scatter_add tensor_scatter_update top_k unique unique_with_counts",
    "random": "multinomial random_gamma random_normal random_poisson random_shuffle random_uniform "
    "truncated_normal",
    "strings": "as_string reduce_join regex_full_match regex_replace string_join string_length "
    "string_lower string_strip string_to_hash_bucket_fast string_to_number string_upper substr",
}
_PUBLIC.update(
    (_name, (f"flowengine.graphs.functions.{_module}", _name))
    for _module, _names in _FUNCTIONS.items()
    for _name in _names.split()
)

__all__ = [*_PUBLIC, "__version__"]


if not TYPE_CHECKING:  # Type checkers know the names, and report any other.

    def __getattr__(name):
        place = _PUBLIC.get(name)
        if place is None:
            raise _missing_name("flowengine", name, __all__)
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


def _open_sandbox(target: str, graph: _Any, config: _Any) -> _Any:
    # By name: what is beneath this package's front reads the front, and would be above the box.
    return _importlib.import_module("flowengine.sandbox.session").open_box(target, graph, config)


_register_scheme("flow", _open_flow)
_register_scheme("flow+tls", _open_flow)
_register_scheme("sandbox", _open_sandbox)
