"""Plans of cuDNN for convolutions: a description of one, the engines that may compute it, and a plan.

    call = ConvolutionCall(CudnnPart.FORWARD, "float32", x, filters, y, geometry)
    plan = make_plan(library, card, call, EngineRules(tensor_float_32=False, deterministic=True))
    handle.execute(plan.descriptor, (X, W, Y), addresses, workspace)

cuDNN's heuristics rank engines for a card; the first one that may be used and gives a plan is taken. Nothing
is timed, so a layer has the same bits in every process on cards of one kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from flowengine.core.errors import InternalError, ResourceExhaustedError, UnimplementedError
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.cuda.cudnn import Attribute, Cudnn, CudnnPart, CudnnType, Descriptor, NumericalNote

#: The unique numbers of tensors: what comes in, the filters, what comes out, and what lies between steps.
X, W, Y, BIAS, SUMMED, BIASED = range(1, 7)
#: {element type: cudnnDataType_t}; sums are in float32, and in float64 for float64.
TYPES: Final = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_FLOAT, _DOUBLE = 0, 1
#: cudnnConvolutionMode_t: as TensorFlow has it, no axis is turned round.
_CROSS_CORRELATION: Final = 1
#: cudnnPointwiseMode_t.
_ADD, _RELU = 0, 100
#: cudnnNanPropagation_t: what is no number goes through a Relu, which has 0 for it if nobody says so.
_PROPAGATES: Final = 1
#: cudnnBackendHeurMode_t, in the order in which they are asked: what is likely fast, then what works at all.
_HEURISTICS: Final = (3, 2)
#: So many engines each of them is asked for.
_ENGINES_MAX: Final = 48
#: A plan that wants more memory beside its tensors is passed over, or more than a share of the card's.
_WORKSPACE_MAX: Final = 4 << 30
_SHARE_OF_MEMORY: Final = 8
#: What addresses of tensors are multiples of, in bytes.
ALIGNMENT: Final = 16


class LaidTensor(NamedTuple):
    """A tensor as cuDNN sees it, (N, C, *sizes) or (K, C, *window): sizes, and elements to the next."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]


def channels_last(dims: Sequence[int]) -> LaidTensor:
    """A tensor of these sizes that lies as (N, *sizes, C)."""
    _, channels, *sizes = dims
    strides = [channels]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return LaidTensor(tuple(dims), (strides[0] * sizes[0], 1, *strides))


def channels_first(dims: Sequence[int]) -> LaidTensor:
    """A tensor of these sizes that lies as (N, C, *sizes)."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * size)
    return LaidTensor(tuple(dims), tuple(strides))


class ConvolutionCall(NamedTuple):
    """A description of the convolution that a plan is made for; equal ones have one plan.

    direction   FORWARD, INPUT_GRADIENT or FILTER_GRADIENT
    dtype       of every tensor: a key of `TYPES`
    x, w, y     what is convolved (or its gradient), the filters (or theirs), the result (or its gradient)
    strides, dilations, before, after   one number an axis of the window
    has_bias    whether a vector along the channels is added to y
    has_relu    whether what is below 0 becomes 0 behind that
    """

    direction: CudnnPart
    dtype: str
    x: LaidTensor
    w: LaidTensor
    y: LaidTensor
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    has_bias: bool = False
    has_relu: bool = False


@dataclass(frozen=True, slots=True)
class EngineRules:
    """Which engines may be used, by what they do with numbers; see `DeviceSettings`."""

    tensor_float_32: bool = False
    deterministic: bool = False

    def refused(self, dtype: str) -> frozenset[int]:
        """The notes of engines that may not compute tensors of this type."""
        # A transform over a whole image carries what is not finite to all of it, and large tiles lose digits.
        notes = {
            NumericalNote.REDUCED_PRECISION_REDUCTION,
            NumericalNote.FFT,
            NumericalNote.WINOGRAD_TILE_13x13,
        }
        if dtype == "float32" and not self.tensor_float_32:
            notes |= {NumericalNote.TENSOR_CORE, NumericalNote.DOWN_CONVERT_INPUTS}
        if dtype == "float64":
            notes.add(NumericalNote.DOWN_CONVERT_INPUTS)
        if self.deterministic:
            notes.add(NumericalNote.NONDETERMINISTIC)
        return frozenset(notes)


class ConvolutionPlan(NamedTuple):
    """A plan, and the bytes of the card's memory that it wants beside its tensors."""

    descriptor: Descriptor
    workspace: int

    @property
    def text(self) -> bytes:
        """The text from which `read_plan` makes the plan again."""
        return self.descriptor.text(Attribute.PLAN_JSON)


def call_of(
    direction: CudnnPart, dtype: str, x: LaidTensor, w: LaidTensor, y: LaidTensor, geometry: Windows
) -> ConvolutionCall:
    """The call of a convolution by its geometry."""
    return ConvolutionCall(
        direction, dtype, x, w, y, geometry.strides, geometry.dilations, geometry.before, geometry.after
    )


def _tensor(
    library: Cudnn, laid: LaidTensor, name: int, kind: int, *, is_virtual: bool = False
) -> Descriptor:
    made = Descriptor(library, CudnnPart.TENSOR)
    made.set_enum(Attribute.TENSOR_DATA_TYPE, CudnnType.DATA_TYPE, kind)
    made.set_integers(Attribute.TENSOR_DIMENSIONS, *laid.dims)
    made.set_integers(Attribute.TENSOR_STRIDES, *laid.strides)
    made.set_integers(Attribute.TENSOR_UNIQUE_ID, name)
    made.set_integers(Attribute.TENSOR_BYTE_ALIGNMENT, ALIGNMENT)
    made.set_flag(Attribute.TENSOR_IS_VIRTUAL, is_virtual)
    made.finalize()
    return made


#: {direction: (attributes of the convolution, of alpha and beta, and of x, w and y)}.
_OPERATIONS: Final = {
    CudnnPart.FORWARD: (
        Attribute.FORWARD_CONV_DESC,
        (Attribute.FORWARD_ALPHA, Attribute.FORWARD_BETA),
        (Attribute.FORWARD_X, Attribute.FORWARD_W, Attribute.FORWARD_Y),
    ),
    CudnnPart.INPUT_GRADIENT: (
        Attribute.INPUT_GRADIENT_CONV_DESC,
        (Attribute.INPUT_GRADIENT_ALPHA, Attribute.INPUT_GRADIENT_BETA),
        (Attribute.INPUT_GRADIENT_DX, Attribute.INPUT_GRADIENT_W, Attribute.INPUT_GRADIENT_DY),
    ),
    CudnnPart.FILTER_GRADIENT: (
        Attribute.FILTER_GRADIENT_CONV_DESC,
        (Attribute.FILTER_GRADIENT_ALPHA, Attribute.FILTER_GRADIENT_BETA),
        (Attribute.FILTER_GRADIENT_X, Attribute.FILTER_GRADIENT_DW, Attribute.FILTER_GRADIENT_DY),
    ),
}


def operation_graph(library: Cudnn, call: ConvolutionCall) -> Descriptor:
    """The convolution of a call and what follows it, as a graph. Raises what `Cudnn.call` does."""
    kind = TYPES[call.dtype]
    summed_in = _DOUBLE if call.dtype == "float64" else _FLOAT
    convolution = Descriptor(library, CudnnPart.CONVOLUTION)
    convolution.set_enum(Attribute.CONVOLUTION_COMP_TYPE, CudnnType.DATA_TYPE, summed_in)
    convolution.set_enum(Attribute.CONVOLUTION_CONV_MODE, CudnnType.CONVOLUTION_MODE, _CROSS_CORRELATION)
    convolution.set_integers(Attribute.CONVOLUTION_SPATIAL_DIMS, len(call.strides))
    convolution.set_integers(Attribute.CONVOLUTION_DILATIONS, *call.dilations)
    convolution.set_integers(Attribute.CONVOLUTION_FILTER_STRIDES, *call.strides)
    convolution.set_integers(Attribute.CONVOLUTION_PRE_PADDINGS, *call.before)
    convolution.set_integers(Attribute.CONVOLUTION_POST_PADDINGS, *call.after)
    convolution.finalize()

    steps = call.has_bias + call.has_relu
    # What lies between steps is in no memory, and in the type of the sums.
    between = [
        _tensor(library, call.y, name, summed_in, is_virtual=True) for name in (SUMMED, BIASED)[:steps]
    ]
    results = [*between, _tensor(library, call.y, Y, kind)]
    operation = Descriptor(library, call.direction)
    its_convolution, factors, tensors = _OPERATIONS[call.direction]
    operation.set_descriptors(its_convolution, convolution)
    for name, value in zip(factors, (1.0, 0.0), strict=True):
        operation.set_factor(name, value, is_double=summed_in == _DOUBLE)
    operation.set_descriptors(tensors[0], _tensor(library, call.x, X, kind))
    operation.set_descriptors(tensors[1], _tensor(library, call.w, W, kind))
    operation.set_descriptors(tensors[2], results[0])
    operation.finalize()

    operations = [operation]
    if call.has_bias:
        vector = (1, call.y.dims[1], *(1 for _ in call.strides))
        bias = _tensor(library, channels_last(vector), BIAS, kind)
        operations.append(_pointwise(library, _ADD, summed_in, results[0], results[1], bias))
    if call.has_relu:
        operations.append(_pointwise(library, _RELU, summed_in, results[-2], results[-1]))
    graph = Descriptor(library, CudnnPart.GRAPH)
    graph.set_descriptors(Attribute.GRAPH_OPS, *operations)
    graph.finalize()
    return graph


def _pointwise(
    library: Cudnn, mode: int, computed_in: int, x: Descriptor, y: Descriptor, b: Descriptor | None = None
) -> Descriptor:
    pointwise = Descriptor(library, CudnnPart.POINTWISE)
    pointwise.set_enum(Attribute.POINTWISE_MODE, CudnnType.POINTWISE_MODE, mode)
    pointwise.set_enum(Attribute.POINTWISE_MATH_PREC, CudnnType.DATA_TYPE, computed_in)
    if mode == _RELU:
        pointwise.set_enum(Attribute.POINTWISE_NAN_PROPAGATION, CudnnType.NAN_PROPAGATION, _PROPAGATES)
    pointwise.finalize()
    step = Descriptor(library, CudnnPart.POINTWISE_STEP)
    step.set_descriptors(Attribute.POINTWISE_STEP_DESCRIPTOR, pointwise)
    step.set_descriptors(Attribute.POINTWISE_STEP_X, x)
    step.set_descriptors(Attribute.POINTWISE_STEP_Y, y)
    if b is not None:
        step.set_descriptors(Attribute.POINTWISE_STEP_B, b)
    step.finalize()
    return step


def _configurations(
    library: Cudnn, card: Descriptor, graph: Descriptor, modes: Sequence[int]
) -> Iterator[Descriptor]:
    """Engines with their settings, the likely fastest first."""
    for mode in modes:
        heuristics = Descriptor(library, CudnnPart.HEURISTICS)
        heuristics.set_descriptors(Attribute.ENGINEHEUR_OPERATION_GRAPH, graph)
        heuristics.set_enum(Attribute.ENGINEHEUR_MODE, CudnnType.HEUR_MODE, mode)
        heuristics.set_descriptors(Attribute.ENGINEHEUR_DEVICEPROP, card)
        try:
            heuristics.finalize()
            found = heuristics.descriptors(
                Attribute.ENGINEHEUR_RESULTS, CudnnPart.ENGINE_CONFIG, _ENGINES_MAX
            )
        except UnimplementedError:
            continue
        yield from found


def engine_of(library: Cudnn, configuration: Descriptor) -> tuple[int, frozenset[int]]:
    """(an engine's number, its numerical notes)."""
    (engine,) = configuration.descriptors(Attribute.ENGINECFG_ENGINE, CudnnPart.ENGINE, 1)
    return engine.integer(Attribute.ENGINE_GLOBAL_INDEX), engine.notes(Attribute.ENGINE_NUMERICAL_NOTE)


def workspace_limit(card: Descriptor) -> int:
    """How many bytes a plan may want beside its tensors: an eighth of the card's memory, 4 GB at most."""
    try:
        memory = json.loads(card.text(Attribute.CARD_JSON))["totalGlobalMem"]
    except (ValueError, KeyError, TypeError):
        return _WORKSPACE_MAX
    return min(_WORKSPACE_MAX, int(memory) // _SHARE_OF_MEMORY)


def plans(
    library: Cudnn, card: Descriptor, call: ConvolutionCall, rules: EngineRules
) -> Iterator[ConvolutionPlan]:
    """Every plan that may be used, the likely fastest first.

    card   the properties of the card: `CudnnHandle.card`, `cudnn.card_like`

    A convolution with a bias behind it has those alone that are likely fast: where only the generic engine
    is left, a usual one with the bias in a launch of its own is to be preferred.

    Raises UnimplementedError for a graph that cuDNN does not have, InternalError for all else.
    """
    refused, limit = rules.refused(call.dtype), workspace_limit(card)
    graph = operation_graph(library, call)
    modes = _HEURISTICS[:1] if call.has_bias else _HEURISTICS
    for configuration in _configurations(library, card, graph, modes):
        if engine_of(library, configuration)[1] & refused:
            continue
        plan = Descriptor(library, CudnnPart.PLAN)
        plan.set_descriptors(Attribute.PLAN_DEVICEPROP, card)
        plan.set_descriptors(Attribute.PLAN_ENGINE_CONFIG, configuration)
        try:
            plan.finalize()
        except (UnimplementedError, InternalError, ResourceExhaustedError):
            continue  # the next one may do
        workspace = plan.integer(Attribute.PLAN_WORKSPACE_SIZE)
        if workspace <= limit:
            yield ConvolutionPlan(plan, workspace)


def make_plan(library: Cudnn, card: Descriptor, call: ConvolutionCall, rules: EngineRules) -> ConvolutionPlan:
    """The first of `plans`; UnimplementedError where there is none."""
    for plan in plans(library, card, call, rules):
        return plan
    what = f"{call.direction.name} of {call.dtype} with x {list(call.x.dims)}, filters {list(call.w.dims)}"
    behind = f" and a bias{' and a Relu' if call.has_relu else ''} behind it" if call.has_bias else ""
    engine = "engine but the generic one" if call.has_bias else "engine"
    raise UnimplementedError(
        f"cuDNN has no {engine} for {what} and strides {list(call.strides)}{behind} that {rules} allows"
    )


def read_plan(library: Cudnn, card: Descriptor, text: bytes) -> ConvolutionPlan:
    """A plan of the text of one. Raises what `Cudnn.call` does where it is of another cuDNN or card."""
    plan = Descriptor(library, CudnnPart.PLAN)
    plan.set_descriptors(Attribute.PLAN_DEVICEPROP, card)
    plan.set_text(Attribute.PLAN_JSON, text)
    plan.finalize()
    return ConvolutionPlan(plan, plan.integer(Attribute.PLAN_WORKSPACE_SIZE))


__all__ = [
    *("ALIGNMENT", "BIAS", "TYPES", "W", "X", "Y"),
    "ConvolutionCall",
    "ConvolutionPlan",
    "EngineRules",
    "LaidTensor",
    "call_of",
    "channels_first",
    "channels_last",
    "engine_of",
    "make_plan",
    "operation_graph",
    "plans",
    "read_plan",
    "workspace_limit",
]
