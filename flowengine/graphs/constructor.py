"""Constructors: from an OpDef and a user's arguments to a node.

Each attribute of a type that the user does not give is inferred from the inputs: first from symbolic tensors,
which have a type, then from Python and NumPy values, which are converted to the type.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from flowengine.core import tracebacks
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.public_names.suggest import close_matches
from flowengine.graphs.attrs import check_attr, constant, free_attr, to_attr, unknown_attr
from flowengine.graphs.conversion import symbolic_inputs
from flowengine.graphs.errors import ConstructionTypeError, at_construction
from flowengine.graphs.signature import describe, method_signature
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.values import natural_dtype, to_value
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.opdef import OpDef

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class Ops:
    """`graph.ops`: one constructor per op of the graph's registry.

    `graph.ops.MatMul(a, b, transpose_a=True, name="mm")` adds a node and returns its output: a `Tensor` for
    one, a named tuple for several (an output list is a tuple within it), the `Operation` for none. Inputs go
    by position or by name, attributes by name; a list input is one list. `help(graph.ops.MatMul)` shows the
    signature.
    """

    __slots__ = ("_graph", "_made")

    def __init__(self, graph: Graph, made: dict[str, Callable[..., Any]]) -> None:
        """`made`: {op: its constructor, which takes the graph first}, which the graph keeps."""
        self._graph = graph
        self._made = made

    def __getattr__(self, name: str) -> Callable[..., Any]:
        constructor = self._made.get(name)
        if constructor is None:
            constructor = self._made[name] = make_constructor(self._definition(name))
        return MethodType(constructor, self._graph)

    def _definition(self, name: str) -> OpDef:
        definition = self._graph.registry.get(name)
        if definition is None:
            if name.startswith("__"):
                raise AttributeError(name)
            # Tools that inspect objects, such as IPython, look for private names of many kinds.
            definition = None if name.startswith("_") else self._graph.registry.find(name)
        if definition is None:
            close = close_matches(name, self._graph.registry, 3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise AttributeError(f"no op is called '{name}'{hint}")
        return definition

    def __getitem__(self, op: str) -> Callable[..., Any]:
        """The constructor of an op whose name is computed, or that type checkers do not know."""
        constructor: Callable[..., Any] = getattr(self, op)
        return constructor

    def __dir__(self) -> Iterable[str]:
        return list(self._graph.registry)


def make_constructor(definition: OpDef) -> Callable[..., Any]:
    """Return the function that adds a node of one op to the graph that it takes first."""
    positional = tuple(arg.name for arg in definition.inputs)
    results = _result_maker(definition)

    def constructor(graph: Graph, /, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        try:
            try:
                if attrs and not attrs.keys().isdisjoint(positional):
                    inputs = _merge_keywords(definition, inputs, attrs)
                elif len(inputs) != len(positional):
                    raise _wrong_count(definition, inputs)
                return results(graph, build_node(graph, definition, inputs, attrs, name))
            except InvalidArgumentError as error:
                raise _at_caller(error) from None
        except OpError as error:
            tracebacks.shorten(error)
            raise

    constructor.__name__ = definition.name
    constructor.__qualname__ = f"ops.{definition.name}"
    constructor.__doc__ = describe(definition)
    vars(constructor)["__signature__"] = method_signature(definition)
    return constructor


def build_node(
    graph: Graph, definition: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None
) -> Node:
    """Convert inputs and attributes, then append the node; InvalidArgumentError if they do not fit."""
    op = definition.name
    for each in inputs:
        if type(each) is not Tensor:
            inputs = symbolic_inputs(graph, definition, inputs)
            break
    if graph.scopes.bring is not None:
        inputs = [_brought(graph.scopes.bring, each) for each in inputs]
    final: dict[str, AttrValue] = {}
    if attrs:
        for attr in definition.attrs:
            given = attrs.get(attr.name)
            # None is a shape of unknown rank; for any other attribute it means "not given".
            if given is not None or (attr.type == "shape" and attr.name in attrs):
                final[attr.name] = to_attr(op, attr, given)
    if len(final) != len(attrs):
        for key, value in attrs.items():
            if key not in final and (value is not None or definition.attr(key) is None):
                if not key.startswith("_"):
                    raise unknown_attr(definition, key)
                final[key] = free_attr(key, value)
    for arg, value in zip(definition.inputs, inputs, strict=True):
        if type(value) is Tensor and arg.type is not None and not arg.is_list:
            continue
        _infer_from_tensors(op, arg, value, final)
    if definition.attrs:
        for arg, value in zip(definition.inputs, inputs, strict=True):
            if arg.type is None:
                _infer_from_values(definition, arg, value, final)
        for attr in definition.attrs:
            if attr.name not in final:
                if attr.has_default:
                    final[attr.name] = attr.default
                    continue
                _infer_from_attrs(definition, attr.name, final)
            if attr.allowed is not None or attr.minimum is not None:
                if attr.type == "type" and attrs.get(attr.name) is None:
                    _check_type(definition, attr, final[attr.name])
                check_attr(op, attr, final[attr.name])
    full_name = graph.scopes.unique_name(name if name is not None else op)
    found: list[OutputPort | _ConstantValue] = []
    for arg, value in zip(definition.inputs, inputs, strict=True):
        if not arg.is_list:
            found.append(_convert(graph, definition, arg, value, final, full_name, None))
        else:
            types = arg.types(final)
            for index, (item, dtype) in enumerate(zip(value, types, strict=True)):
                found.append(_convert(graph, definition, arg, item, final, full_name, (index, dtype)))
    # Only now, when all arguments are known to fit, is anything added.
    ports = tuple(
        [
            each
            if isinstance(each, OutputPort)
            else graph.append_constant(each.value, graph.scopes.unique(each.name)).port
            for each in found
        ]
    )
    return graph.append(definition, full_name, ports, final)


def _check_type(definition: OpDef, attr: AttrDef, found: DType) -> None:
    """Refuse a type that an input has, and that the op does not take, by the name of the input."""
    if attr.allowed is not None and found.base not in attr.allowed:
        for arg in definition.inputs:
            if arg.type_attr == attr.name:
                raise ConstructionTypeError(
                    f"{definition.name}: input '{arg.name}' cannot be {found.base} ({attr.name}); allowed: "
                    + ", ".join(map(str, attr.allowed))
                )


def _at_caller(error: InvalidArgumentError) -> InvalidArgumentError:
    """The error of a constructor with the line that called it, and without the engine's frames."""
    found = at_construction(error)
    tracebacks.shorten(found)
    return found


def _brought(bring: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Return an input with its tensors brought into the branch or loop in which the node is built."""
    if type(value) is Tensor:
        return bring(value)
    return [_brought(bring, each) for each in value] if isinstance(value, list | tuple) else value


class _ConstantValue(NamedTuple):
    """A Const to be made of a Python or NumPy value."""

    value: TensorAttr
    name: str


def _infer_from_tensors(op: str, arg: ArgDef, value: Any, attrs: dict[str, AttrValue]) -> None:
    """Set the attributes that the symbolic tensors of one argument, or its length, determine."""
    if not arg.is_list:
        if type(value) is Tensor and arg.type_attr is not None and arg.type_attr not in attrs:
            attrs[arg.type_attr] = value.dtype.base
        return
    if isinstance(value, Tensor | str | bytes) or not hasattr(value, "__len__"):
        raise ConstructionTypeError(f"{op}: input '{arg.name}' is a list; write [{value!r}]")
    count = len(value)
    if arg.number_attr is not None:
        given = attrs.setdefault(arg.number_attr, count)
        if given != count:
            raise InvalidArgumentError(
                f"{op}: input '{arg.name}' has {count} tensors, but {arg.number_attr} is {given}"
            )
        if arg.type_attr is not None and arg.type_attr not in attrs:
            for item in value:
                if type(item) is Tensor:
                    attrs[arg.type_attr] = item.dtype.base
                    break
        return
    assert arg.type_list_attr is not None
    given_types = attrs.get(arg.type_list_attr)
    if given_types is None:
        if all(type(item) is Tensor for item in value):
            attrs[arg.type_list_attr] = tuple([item.dtype.base for item in value])
    elif len(given_types) != count:
        raise InvalidArgumentError(
            f"{op}: input '{arg.name}' has {count} tensors, but {arg.type_list_attr} lists "
            f"{len(given_types)} types"
        )


def _infer_from_values(definition: OpDef, arg: ArgDef, value: Any, attrs: dict[str, AttrValue]) -> None:
    """Set the type attribute of an argument from Python and NumPy values, if nothing has set it."""
    if arg.type_attr is not None and arg.type_attr not in attrs:
        items = value if arg.number_attr is not None else (value,)
        for item in items:
            attrs[arg.type_attr] = _choose_type(definition, arg.type_attr, item)
            break
    elif arg.type_list_attr is not None and arg.type_list_attr not in attrs:
        attrs[arg.type_list_attr] = tuple(
            [
                item.dtype.base if type(item) is Tensor else _choose_type(definition, None, item)
                for item in value
            ]
        )


def _choose_type(definition: OpDef, attr_name: str | None, value: Any) -> DType:
    """The type for a value that has none given: an array's own, else its natural one or the default."""
    found = _first_tensor(value)
    if found is not None:
        return found.dtype.base
    natural = natural_dtype(value)
    if natural is None:
        to_value(value)  # Raises, saying why it is no tensor.
        raise InvalidArgumentError(f"{definition.name}: {value!r} is not a tensor")
    attr = definition.attr(attr_name) if attr_name is not None else None
    if attr is not None and attr.allowed is not None and natural not in attr.allowed and attr.has_default:
        default: DType = attr.default
        try:
            return to_value(value, default)[1]
        except InvalidArgumentError:
            return natural
    return natural


def _infer_from_attrs(definition: OpDef, name: str, attrs: dict[str, AttrValue]) -> None:
    """A missing `dtype` is that of the op's tensor attribute, if it has one; else an error."""
    tensors = [attrs[a.name].dtype for a in definition.attrs if a.type == "tensor" and a.name in attrs]
    attr = definition.attr(name)
    assert attr is not None
    if attr.type == "type" and len(tensors) == 1:
        attrs[name] = tensors[0]
        return
    raise InvalidArgumentError(f"{definition.name}: attribute '{name}' ({attr.type}) is missing")


def _convert(
    graph: Graph,
    definition: OpDef,
    arg: ArgDef,
    value: Any,
    attrs: Mapping[str, AttrValue],
    node_name: str,
    item: tuple[int, DType] | None,
) -> OutputPort | _ConstantValue:
    """The port that feeds one input, or the constant that shall."""
    if item is not None:
        wanted = item[1]
    elif arg.type is not None:
        wanted = arg.type
    else:
        wanted = attrs[arg.type_attr or ""]
    shown = arg.name if item is None else f"{arg.name}[{item[0]}]"
    if type(value) is Tensor:
        if value.graph is not graph:
            raise InvalidArgumentError(
                f"{definition.name}: input '{shown}' is '{value.name}', which belongs to another graph"
            )
        dtype = value.dtype
        if arg.is_ref and not dtype.is_ref:
            raise ConstructionTypeError(
                f"{definition.name}: input '{shown}' must be a reference to a variable, "
                f"but '{value.name}' is {dtype}"
            )
        if dtype.base is not wanted.base:
            raise ConstructionTypeError(
                f"{definition.name}: input '{shown}' must be {wanted.base}{_because(definition, arg)}, "
                f"but '{value.name}' is {dtype.base}"
            )
        return value.port
    if isinstance(value, Operation):
        raise ConstructionTypeError(
            f"{definition.name}: input '{shown}' is the operation '{value.name}'; pass one of its outputs"
        )
    if arg.is_ref or wanted.name in ("resource", "variant"):
        raise ConstructionTypeError(
            f"{definition.name}: input '{shown}' must be a tensor of type "
            f"{wanted.ref if arg.is_ref else wanted}, not {value!r}"
        )
    if _first_tensor(value) is not None:
        return _pack(graph, value, wanted, f"{node_name}/{arg.name}/").port
    try:
        converted, dtype = to_value(value, wanted)
    except InvalidArgumentError as error:
        raise ConstructionTypeError(
            f"{definition.name}: input '{shown}' must be {wanted.base}{_because(definition, arg)}: "
            f"{error.message}"
        ) from None
    suffix = arg.name if item is None else f"{arg.name}_{item[0]}"
    return _ConstantValue(constant(converted, dtype), f"{node_name}/{suffix}")


def _because(definition: OpDef, arg: ArgDef) -> str:
    """Which other input an input's type follows."""
    if arg.type_attr is None:
        return ""
    others = [a.name for a in definition.inputs if a.type_attr == arg.type_attr and a is not arg]
    if others:
        return f" ({arg.type_attr}, as {', '.join(others)})"
    return f" ({arg.type_attr})"


def _first_tensor(value: Any) -> Tensor | None:
    """A symbolic tensor inside of a nested list, or the value itself if it is one."""
    if type(value) is Tensor:
        return value
    if isinstance(value, list | tuple):
        for item in value:
            if type(item) is Tensor or isinstance(item, list | tuple):
                found = _first_tensor(item)
                if found is not None:
                    return found
    return None


def _pack(graph: Graph, value: Sequence[Any], dtype: DType, name: str) -> Tensor:
    """A list that holds symbolic tensors, packed into one."""
    packed: Tensor = graph.ops.Pack(
        [_pack(graph, v, dtype, name) if _is_nested(v) else v for v in value],
        T=dtype,
        name=graph.scopes.unique(name + "packed") + "/",
    )
    return packed


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple) and _first_tensor(value) is not None


def _merge_keywords(definition: OpDef, inputs: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs in order, those given by name taken out of `attrs`."""
    merged = list(inputs)
    for position, arg in enumerate(definition.inputs):
        if arg.name in attrs:
            if position < len(inputs):
                raise InvalidArgumentError(f"{definition.name}: input '{arg.name}' is given twice")
            if position != len(merged):
                break
            merged.append(attrs.pop(arg.name))
    if len(merged) != len(definition.inputs):
        raise _wrong_count(definition, merged)
    return tuple(merged)


def _wrong_count(definition: OpDef, inputs: Sequence[Any]) -> ConstructionTypeError:
    names = ", ".join(f"{a.name} (a list)" if a.is_list else a.name for a in definition.inputs)
    return ConstructionTypeError(
        f"{definition.name} takes {len(definition.inputs)} inputs ({names or 'none'}); "
        f"{len(inputs)} are given"
    )


def _result_maker(definition: OpDef) -> Callable[[Graph, Node], Any]:
    """The function that wraps a new node's outputs as its constructor returns them."""
    outputs = definition.outputs
    if not outputs:
        return lambda graph, node: Operation(graph, node.name)
    has_lists = any(arg.is_list for arg in outputs)
    if len(outputs) == 1 and not has_lists:
        return lambda graph, node: Tensor(graph, node.name, 0)
    make_type: Any = namedtuple
    # "Addons>Resampler" has a prefix that no Python name can have.
    fields = make_type(definition.name.rpartition(">")[2], [a.name for a in outputs], rename=True)
    if not has_lists:
        return lambda graph, node: fields._make(Tensor(graph, node.name, i) for i in range(len(outputs)))

    def collect(graph: Graph, node: Node) -> Any:
        result: list[Any] = []
        slot = 0
        for arg in outputs:
            count = len(arg.types(node.attrs))
            tensors = tuple(Tensor(graph, node.name, slot + i) for i in range(count))
            result.append(tensors if arg.is_list else tensors[0])
            slot += count
        return result[0] if len(result) == 1 else fields._make(result)

    return collect
