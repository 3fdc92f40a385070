"""Generated CUDA C for elementwise chains, compiled for the CPU: the bits of the CPU's kernels."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda import elementwise, functions
from flowengine.kernels.load import registry
from tests.effort import IS_NIGHTLY
from tests.kernels.cuda.closeness import agrees
from tests.kernels.cuda.drawn_chains import DrawnChain, DrawnStep, chains, single_nodes
from tests.kernels.cuda.host_compiler import HostModule, needs_compiler


def source_of(chain: DrawnChain, outputs: list[int] | None = None) -> elementwise.ElementwiseSource:
    shape = elementwise.geometry(chain.shape, [x.shape for x in chain.inputs])
    return elementwise.write(chain.steps, chain.types, shape, outputs)


def run(
    module: HostModule, chain: DrawnChain, outputs: list[int] | None = None
) -> tuple[list[Any], list[int]]:
    """The results that are asked for, and the error record."""
    shape = elementwise.geometry(chain.shape, [x.shape for x in chain.inputs])
    source = source_of(chain, outputs)
    steps = [chain.steps[n] for n in outputs or [len(chain.steps) - 1]]
    results = [np.empty(chain.shape, s.node.output_types[0].as_numpy_dtype) for s in steps]
    error = np.zeros(3, np.int64)
    arrays = [*chain.inputs, *results, *([error] if source.refuses else [])]
    module.launch(source.name, arrays, shape.numbers, wide=shape.is_wide)
    return results, error.tolist()


def check(module: HostModule, chain: DrawnChain) -> None:
    """Each step is what the CPU's kernel makes of the kernel's own earlier results."""
    results, error = run(module, chain, list(range(len(chain.steps))))
    known = [*(np.ascontiguousarray(np.broadcast_to(x, chain.shape)) for x in chain.inputs), *results]
    refused = None
    for number, step in enumerate(chain.steps):
        function = registry().find(step.node).bind(step.node)
        inputs = [known[i] for i in step.sources]
        try:
            with np.errstate(all="ignore"):
                wanted = function(tuple(inputs)) if step.node.op == "AddN" else function(*inputs)
        except fe.errors.OpError as raised:
            refused = refused or (number, raised)
            continue
        text = f"{step.node.op} of {step.node.input_types()} in\n{source_of(chain).text}"
        ulps = 4 if step.node.op in functions.INEXACT else 0
        assert agrees(results[number], np.asarray(wanted), ulps), (
            f"{text}\n{inputs}\n{results[number]}\n{wanted}"
        )
    assert bool(error[0]) == (refused is not None), source_of(chain).text
    if refused is not None:
        told = functions.REFUSALS[error[0]]
        assert 0 <= error[2] < np.prod(chain.shape)
        assert type(told) in {type(e) for e in functions.REFUSALS.values()}
        return
    (alone,), _ = run(module, chain)
    assert agrees(alone, results[-1], 0)


@needs_compiler
@settings(
    max_examples=21 if IS_NIGHTLY else 3,
    phases=[Phase.generate],
    print_blob=False,
    derandomize=not IS_NIGHTLY,
)
@given(st.lists(chains(), min_size=25, max_size=25))
def test_a_chain_has_the_bits_of_its_nodes(drawn: list[DrawnChain]) -> None:
    sources = {}
    for chain in drawn:
        for source in (source_of(chain), source_of(chain, list(range(len(chain.steps))))):
            sources[source.name] = source.text
    with TemporaryDirectory() as folder:
        module = HostModule(elementwise.prelude() + "".join(sources.values()), Path(folder))
        for chain in drawn:
            check(module, chain)


@needs_compiler
def test_every_op_has_the_bits_of_its_node_alone(tmp_path: Path) -> None:
    some = [dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.bfloat16, dtypes.float32, dtypes.complex64]
    types = list(functions.C_TYPES) if IS_NIGHTLY else some
    nodes = list(single_nodes(types, types))
    sources = {source.name: source.text for source in map(source_of, nodes)}
    module = HostModule(elementwise.prelude() + "".join(sources.values()), tmp_path)
    for chain in nodes:
        check(module, chain)
    tried = {chain.steps[0].node.op for chain in nodes}
    assert functions.ELEMENTWISE - tried == {"BiasAdd", "BiasAddV1"}


@needs_compiler
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_every_narrow_float_and_what_lies_half_way_between_two(tmp_path: Path, dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.as_numpy_dtype)
    with np.errstate(all="ignore"):
        sorted_once = np.unique(every.astype(np.float64)[np.isfinite(every.astype(np.float32))])
        middles = ((sorted_once[1:] + sorted_once[:-1]) / 2).astype(np.float32)
        beside = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    largest = np.float32(dtype.max)
    floats = np.concatenate([middles, *beside, [largest, np.float32(3.4e38), np.inf, -np.inf, np.nan]])
    up = one_step("Cast", dtype.name, every, DstT="float32")
    down = one_step("Cast", "float32", floats.astype(np.float32), DstT=dtype.name)
    texts = [source_of(chain).text for chain in (up, down)]
    module = HostModule(elementwise.prelude() + "".join(texts), tmp_path)
    for chain in (up, down):
        (found,), _ = run(module, chain)
        with np.errstate(all="ignore"):
            wanted = chain.inputs[0].astype(found.dtype)
        same = found.view(f"u{found.itemsize}") == wanted.view(f"u{found.itemsize}")
        assert (same | (np.isnan(found) & np.isnan(wanted))).all()


def one_step(op: str, dtype: str, *inputs: Any, **attrs: Any) -> DrawnChain:
    graph = fe.Graph()
    arrays = [np.asarray(x, dtypes.as_dtype(dtype).as_numpy_dtype) for x in inputs]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    made = getattr(graph.ops, op)(*(graph.placeholder(dtype, x.shape) for x in arrays), **attrs)
    step = DrawnStep(graph.nodes[made.node_name], tuple(range(len(arrays))))
    return DrawnChain(shape, arrays, [dtypes.as_dtype(dtype)] * len(arrays), [step])


@needs_compiler
def test_refusals_say_what_and_where(tmp_path: Path) -> None:
    cases = {
        "Div": ([1, 2, 3], [1, 0, 1], 1),
        "TruncateDiv": ([1, 2, 3], [1, 0, 1], 2),
        "Pow": ([1, 2, 3], [1, -1, 1], 3),
    }
    made = {op: one_step(op, "int32", x, y) for op, (x, y, _) in cases.items()}
    texts = [source_of(chain).text for chain in made.values()]
    module = HostModule(elementwise.prelude() + "".join(texts), tmp_path)
    for op, (_, _, code) in cases.items():
        chain = made[op]
        _, error = run(module, chain)
        assert error == [code, 0, 1]
        with pytest.raises(type(functions.REFUSALS[code]), match=functions.REFUSALS[code].message):
            registry().find(chain.steps[0].node).bind(chain.steps[0].node)(*chain.inputs)


@needs_compiler
def test_places_of_64_bits_and_memory_of_an_input(tmp_path: Path) -> None:
    chain = one_step("Sub", "float32", [[1, 2, 3], [4, 5, 6]], [[1], [2]])
    shape = elementwise.geometry((2, 3), [(2, 3), (2, 1)])
    wide = elementwise.BroadcastGeometry(shape.shape, shape.views, shape.strides, True)
    source = elementwise.write(chain.steps, chain.types, wide)
    module = HostModule(elementwise.prelude() + source.text, tmp_path)
    x, y = chain.inputs
    module.launch(source.name, [x, y, x], wide.numbers, wide=True)
    assert x.tolist() == [[0, 1, 2], [2, 3, 4]]


@needs_compiler
def test_a_bias_lies_along_the_last_axis(tmp_path: Path) -> None:
    chain = one_step("BiasAdd", "float16", [[1, 2, 3], [4, 5, 6]], [1, 2, 3])
    module = HostModule(elementwise.prelude() + source_of(chain).text, tmp_path)
    (result,), _ = run(module, chain)
    assert result.tolist() == [[2, 4, 6], [5, 7, 9]]


def test_axes_are_joined_where_all_inputs_allow_it() -> None:
    found = elementwise.geometry((2, 3, 4, 5), [(2, 3, 4, 5), (5,), (2, 1, 1, 1), (), (1, 1, 4, 5)])
    assert found.shape == (2, 3, 4, 5)
    assert found.views == ("whole", "strided", "strided", "single", "strided")
    assert elementwise.geometry((2, 3, 4, 5), [(2, 3, 4, 5), (5,)]).shape == (24, 5)
    assert elementwise.geometry((2, 3), [(2, 3), (2, 3)]).numbers == (6,)
    turned = elementwise.geometry((2, 3), [(2, 3)], [(1, 2)])
    assert (turned.views, turned.numbers) == (("strided",), (6, 3, 1, 2))
    assert elementwise.geometry((1, 1), [(1, 1)]).numbers == (1,)
    assert elementwise.geometry((0, 3), [(0, 3)]).numbers == (0,)
    assert elementwise.geometry((1 << 16, 1 << 15), [()]).is_wide
    assert not elementwise.geometry((1 << 15, 1 << 15), [()]).is_wide
    with pytest.raises(InvalidArgumentError, match="does not broadcast"):
        elementwise.geometry((2, 3), [(2,)])


def test_equal_structures_share_a_source_and_names_stay_out() -> None:
    texts = []
    for name in ("plain", "x;}/*"):
        graph = fe.Graph()
        made = graph.ops.Tanh(graph.placeholder("float32", [4]), name=name.replace(";}/*", "_other"))
        step = DrawnStep(graph.nodes[made.node_name], (0,))
        texts.append(elementwise.write([step], [dtypes.float32], elementwise.geometry((4,), [(4,)])))
    assert texts[0] == texts[1]
    assert "plain" not in texts[0].text


def test_what_has_no_expression_is_refused() -> None:
    chain = one_step("Igamma", "float32", [1.0], [2.0])
    assert functions.expression(chain.steps[0].node) is None
    with pytest.raises(InvalidArgumentError, match="Igamma 'Igamma' has no expression in CUDA C"):
        source_of(chain)
