"""The configuration files of TensorFlow Serving, and its warm-up requests, as protocol buffers.

The messages have the field numbers of TensorFlow Serving's, in a package of our own. The generated files are
kept in the repository; `flowengine.ir.proto` says which compiler makes them.

    python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. flowengine/serving/proto/*.proto
"""

from __future__ import annotations

from flowengine.serving.proto.serving_pb2 import (
    BatchingParameters,
    FileSystemStoragePathSourceConfig,
    ModelConfig,
    ModelServerConfig,
    MonitoringConfig,
    PredictionLog,
)

__all__ = [
    "BatchingParameters",
    "FileSystemStoragePathSourceConfig",
    "ModelConfig",
    "ModelServerConfig",
    "MonitoringConfig",
    "PredictionLog",
]
