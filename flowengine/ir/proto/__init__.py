"""The GraphDef family as protocol buffers: what is read from and written to `graph.pb`.

The messages have the field numbers that TensorFlow's have, in a package of our own, so that either
library reads what the other wrote and both can be loaded in one process.

`*_pb2.py` and `*_pb2.pyi` are generated and kept in the repository, so that installing needs no
compiler. protoc 26.1 made them, from the repository's root: its Python code loads with every protobuf
from 5.26 on, where newer compilers tie their code to newer run times.

    pip install grpcio-tools==1.64.3 mypy-protobuf==3.6.0
    python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. flowengine/ir/proto/*.proto
"""

from __future__ import annotations

from flowengine.ir.proto.control_flow_pb2 import CondContextDef, ControlFlowContextDef, WhileContextDef
from flowengine.ir.proto.graph_pb2 import (
    AttrValue,
    FunctionDef,
    FunctionDefLibrary,
    GradientDef,
    GraphDef,
    NameAttrList,
    NodeDef,
    OpDef,
    OpList,
    VersionDef,
)
from flowengine.ir.proto.meta_graph_pb2 import (
    AssetFileDef,
    CollectionDef,
    MetaGraphDef,
    QueueRunnerDef,
    SavedModel,
    SaverDef,
    SaveSliceInfoDef,
    SignatureDef,
    TensorInfo,
    VariableDef,
)
from flowengine.ir.proto.quantized_convolution_pb2 import UniformQuantizedConvolutionDimensionNumbersAttr
from flowengine.ir.proto.tensor_pb2 import ResourceHandleProto, TensorProto, VariantTensorDataProto
from flowengine.ir.proto.types_pb2 import DataType, TensorShapeProto

__all__ = [
    "AssetFileDef",
    "AttrValue",
    "CollectionDef",
    "CondContextDef",
    "ControlFlowContextDef",
    "DataType",
    "FunctionDef",
    "FunctionDefLibrary",
    "GradientDef",
    "GraphDef",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "OpDef",
    "OpList",
    "QueueRunnerDef",
    "ResourceHandleProto",
    "SaveSliceInfoDef",
    "SavedModel",
    "SaverDef",
    "SignatureDef",
    "TensorInfo",
    "TensorProto",
    "TensorShapeProto",
    "UniformQuantizedConvolutionDimensionNumbersAttr",
    "VariableDef",
    "VariantTensorDataProto",
    "VersionDef",
    "WhileContextDef",
]
