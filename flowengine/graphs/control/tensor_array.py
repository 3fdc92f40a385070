"""`graph.tensor_array`: an array of tensors that a loop writes and reads, one element a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.shapes import TensorShape
from flowengine.graphs.conversion import TensorLike, convert
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.tensor import Operation, Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class GraphTensorArray:
    """An array of tensors of one type, each of which is written once.

    graph    its graph
    dtype    of its elements
    handle   the array itself, which exists as long as a step
    flow     float32: the output of the last write, so that reads come after it
    shape    the known part of the shape of every element

    A write returns an array with another flow; use that one from there on. It may be a variable of a loop or
    a result of a conditional, and `fe.gradients` differentiates through it. Methods raise ValueError (as
    InvalidArgumentError) for values of another shape or type; an index out of range fails the step with
    InvalidArgumentError.

    >>> graph = fe.Graph()
    >>> array = graph.tensor_array("float32", 3).unstack([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> shown = [array.read(1), array.gather([2, 0]), array.size()]
    >>> [value.tolist() for value in fe.testing.evaluate(graph, [each.name for each in shown])]
    [[3.0, 4.0], [[5.0, 6.0], [1.0, 2.0]], 3]
    >>> written = graph.tensor_array("int32", 4).write(0, 7).write(1, 8).scatter([2, 3], [9, 10])
    >>> cut = graph.tensor_array("int32", 2, infer_shape=False).split([1, 2, 3], [2, 1])
    >>> [value.tolist() for value in fe.testing.evaluate(graph, [written.stack().name, cut.concat().name])]
    [[7, 8, 9, 10], [1, 2, 3]]
    """

    def __init__(
        self, graph: Graph, dtype: DType, handle: Tensor, flow: Tensor, shape: list[TensorShape]
    ) -> None:
        self.graph = graph
        self.dtype = dtype
        self.handle = handle
        self.flow = flow
        #: The known part of the shape of every element, shared by all arrays of the same handle; or empty.
        self._shape = shape

    @classmethod
    def create(
        cls,
        graph: Graph,
        dtype: Any,
        size: TensorLike = None,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        tensor_array_name: str = "",
        element_shape: Any = None,
        infer_shape: bool = True,
        name: str | None = None,
    ) -> GraphTensorArray:
        """Add an array to `graph`; the other arguments are those of `flowengine.Graph.tensor_array`.

        >>> from flowengine.graphs.control.tensor_array import GraphTensorArray
        >>> GraphTensorArray.create(fe.Graph(), "float32", 3, element_shape=[2])
        <GraphTensorArray 'TensorArray' of float32 [2]>
        """
        kind = as_dtype(dtype).base
        shape = TensorShape(element_shape)
        if size is None and not dynamic_size:
            raise ConstructionValueError("tensor_array needs size=, or dynamic_size=True")
        with graph.name_scope(name or "TensorArray") as scope:
            handle, flow = graph.ops.TensorArrayV3(
                0 if size is None else size,
                dtype=kind,
                element_shape=shape,
                dynamic_size=dynamic_size,
                clear_after_read=clear_after_read,
                identical_element_shapes=infer_shape,
                tensor_array_name=tensor_array_name,
                name=scope,
            )
        return cls(graph, kind, handle, flow, [shape] if infer_shape else [])

    @property
    def element_shape(self) -> TensorShape:
        """The shape of every element, as far as it is known."""
        return self._shape[0] if self._shape else TensorShape(None)

    def __repr__(self) -> str:
        return f"<GraphTensorArray '{self.handle.node_name}' of {self.dtype} {self.element_shape}>"

    # -- as a part of structures -------------------------------------------------------------------

    def __flowengine_parts__(self) -> Sequence[Tensor]:
        return (self.flow,)

    def __flowengine_with_parts__(self, parts: Sequence[Any]) -> GraphTensorArray:
        (flow,) = parts
        return self if flow is self.flow else self._after(flow)

    def _after(self, flow: Tensor) -> GraphTensorArray:
        return GraphTensorArray(self.graph, self.dtype, self.handle, flow, self._shape)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> GraphTensorArray:
        """Return the array with an element written. An index out of range, or twice, is an error of the step.

        Raises ValueError (as InvalidArgumentError) where the value has another shape than the others.
        """
        with self.graph.name_scope(name or "TensorArrayWrite"):
            tensor = convert(self.graph, value, self.dtype, name="value")
            self._learn(tensor.shape)
            flow = self.graph.ops.TensorArrayWriteV3(self.handle, index, tensor, self.flow)
        return self._after(flow)

    def unstack(self, value: TensorLike, name: str | None = None) -> GraphTensorArray:
        """Return the array with the rows of `value` as its elements: (n, ...) -> n elements."""
        with self.graph.name_scope(name or "TensorArrayUnstack"):
            tensor = convert(self.graph, value, self.dtype, name="value")
            count = tensor.shape[0] if tensor.shape.rank else None
            length = self.graph.ops.Shape(tensor)[0] if count is None else count
            return self.scatter(self.graph.ops.Range(0, length, 1), tensor)

    def scatter(self, indices: TensorLike, value: TensorLike, name: str | None = None) -> GraphTensorArray:
        """Return the array with rows of `value` as the elements at `indices`: (n, ...) and (n,)."""
        with self.graph.name_scope(name or "TensorArrayScatter"):
            tensor = convert(self.graph, value, self.dtype, name="value")
            if tensor.shape.rank:
                self._learn(TensorShape(tensor.shape.as_list()[1:]))
            flow = self.graph.ops.TensorArrayScatterV3(self.handle, indices, tensor, self.flow)
        return self._after(flow)

    def split(self, value: TensorLike, lengths: TensorLike, name: str | None = None) -> GraphTensorArray:
        """Return the array with parts of `value` as its elements, of `lengths` rows each."""
        with self.graph.name_scope(name or "TensorArraySplit"):
            tensor = convert(self.graph, value, self.dtype, name="value")
            counts = self.graph.ops.Cast(convert(self.graph, lengths), DstT=as_dtype("int64"))
            flow = self.graph.ops.TensorArraySplitV3(self.handle, tensor, counts, self.flow)
        return self._after(flow)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """Return the element at `index`. One that was not written is an error of the step."""
        found: Tensor = self.graph.ops.TensorArrayReadV3(
            self.handle, index, self.flow, dtype=self.dtype, name=name
        )
        found.set_shape(self.element_shape)
        return found

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of its elements: one int32."""
        found: Tensor = self.graph.ops.TensorArraySizeV3(self.handle, self.flow, name=name)
        return found

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements as the rows of one tensor: (n, ...)."""
        with self.graph.name_scope(name or "TensorArrayStack"):
            return self.gather(self.graph.ops.Range(0, self.size(), 1))

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the elements at `indices` as the rows of one tensor: (n,) -> (n, ...)."""
        found: Tensor = self.graph.ops.TensorArrayGatherV3(
            self.handle, indices, self.flow, dtype=self.dtype, element_shape=self.element_shape, name=name
        )
        return found

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements one behind the other along their first axis; the others are equal."""
        shape = self.element_shape
        rest = TensorShape(shape.as_list()[1:]) if shape.rank else TensorShape(None)
        found: Tensor = self.graph.ops.TensorArrayConcatV3(
            self.handle, self.flow, dtype=self.dtype, element_shape_except0=rest, name=name
        ).value
        return found

    def close(self, name: str | None = None) -> Operation:
        """Return the operation that frees it before the step ends.

        >>> array = fe.Graph().tensor_array("int32", 2).write(0, 7)
        >>> with array.graph.control_dependencies([array.read(0)]):
        ...     array.close().type
        'TensorArrayCloseV3'
        """
        found: Operation = self.graph.ops.TensorArrayCloseV3(self.handle, name=name)
        return found

    def _learn(self, shape: TensorShape) -> None:
        if not self._shape:
            return
        if not self._shape[0].is_compatible_with(shape):
            raise ConstructionValueError(
                f"{self!r} has elements of one shape; this one is of {shape} (infer_shape=False allows it)"
            )
        self._shape[0] = self._shape[0].merge_with(shape)
