"""Boosted trees: summaries of values, and streams of them as nodes. The handle that flows is the streams."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, outputs, scalar, shape_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.forests.quantiles import QuantileStream, QuantileStreams
from flowengine.resources.names import resource_name

HOST: Final = "streams are objects in host memory, and what TensorFlow has for CPUs alone"


@kernel("BoostedTreesQuantileStreamResourceHandleOp", heavy=False)
def streams_handle(
    *, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes
) -> QuantileStreams:
    """The streams of this container and name, which need not exist yet."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(
        where, name, QuantileStreams, lambda: QuantileStreams(name, container=where)
    )


def _checked(handle: Any) -> QuantileStreams:
    if isinstance(handle, QuantileStreams):
        return handle
    raise InvalidArgumentError(f"the handle of quantile streams is wanted, not a {type(handle).__name__}")


def _error(epsilon: Any) -> float:
    if shape_of(epsilon) != ():
        raise InvalidArgumentError(f"epsilon must be a scalar, not of shape {brackets(shape_of(epsilon))}")
    error = float(epsilon)
    if not error > 0:
        raise InvalidArgumentError(f"An epsilon value of zero is not allowed, nor is {error}.")
    return error


@kernel("IsBoostedTreesQuantileStreamResourceInitialized", heavy=False)
def is_initialized(quantile_stream_resource_handle: Any) -> Any:
    """Whether the streams were created (bool, rank 0)."""
    return np.bool_(_checked(quantile_stream_resource_handle).exists)


@kernel("BoostedTreesCreateQuantileStreamResource")
def create_streams(
    quantile_stream_resource_handle: Any, epsilon: Any, num_streams: Any, *, max_elements: int
) -> None:
    """Begin streams, where there are none yet."""
    count = scalar(num_streams, "num_streams")
    _checked(quantile_stream_resource_handle).create(_error(epsilon), max_elements, count)


@kernel("BoostedTreesMakeQuantileSummaries", fresh=True)
def make_summaries(float_values: tuple[Array, ...], example_weights: Array, epsilon: Any) -> Any:
    """The summary (entries, 4) of each feature: value, weight, least and greatest rank, all float32.

    example_weights    one for each value, or one for all
    """
    error = _error(epsilon)
    for each in float_values:
        if each.ndim != 1:
            raise InvalidArgumentError(f"float_values must be vectors, not of shape {brackets(each.shape)}")
    count = float_values[0].size if float_values else 0
    if any(each.size != count for each in float_values):
        raise InvalidArgumentError(
            f"features are of different numbers of values: {[each.size for each in float_values]}"
        )
    if example_weights.size not in (1, count):
        raise InvalidArgumentError("Weights should be a single value or same size as features.")
    weights = np.broadcast_to(example_weights.reshape(-1), (count,))
    summaries = []
    for values in float_values:
        stream = QuantileStream(error, count + 1)
        stream.push(values, weights)
        summaries.append(stream.summary())
    return outputs(summaries)


@kernel("BoostedTreesFlushQuantileSummaries", fresh=True)
def flush_summaries(quantile_stream_resource_handle: Any, *, num_features: int) -> Any:
    """The summaries of the streams, which begin anew."""
    return outputs(_checked(quantile_stream_resource_handle).flush_summaries(num_features))


@kernel("BoostedTreesQuantileStreamResourceAddSummaries")
def add_summaries(quantile_stream_resource_handle: Any, summaries: tuple[Array, ...]) -> None:
    """Add a summary (entries, 4) to each stream."""
    for each in summaries:
        if each.ndim != 2 or each.shape[1] != 4:
            raise InvalidArgumentError(f"a summary must be of shape [n,4], not {brackets(each.shape)}")
    _checked(quantile_stream_resource_handle).add(summaries)


@kernel("BoostedTreesQuantileStreamResourceDeserialize")
def deserialize_streams(quantile_stream_resource_handle: Any, bucket_boundaries: tuple[Array, ...]) -> None:
    """Set the boundaries of the first streams."""
    for each in bucket_boundaries:
        if each.ndim != 1:
            raise InvalidArgumentError(f"boundaries must be vectors, not of shape {brackets(each.shape)}")
    _checked(quantile_stream_resource_handle).set_boundaries(bucket_boundaries)


@kernel("BoostedTreesQuantileStreamResourceFlush")
def flush_streams(
    quantile_stream_resource_handle: Any, num_buckets: Any, *, generate_quantiles: bool
) -> None:
    """Make boundaries of the streams, which begin anew."""
    count = scalar(num_buckets, "num_buckets")
    _checked(quantile_stream_resource_handle).flush(count, quantiles=generate_quantiles)


@kernel("BoostedTreesQuantileStreamResourceGetBucketBoundaries")
def bucket_boundaries(quantile_stream_resource_handle: Any, *, num_features: int) -> Any:
    """The boundaries of all streams: a vector each."""
    return outputs(_checked(quantile_stream_resource_handle).boundaries(num_features))
