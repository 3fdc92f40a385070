"""Lists of tensors: values that never change, against Python's own lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.data import tensor_list as ops
from flowengine.kernels.data.tensor_list_value import TensorList
from tests.effort import examples

Run = Callable[..., Any]
_FLOAT = dtypes.float32
_UNKNOWN = np.array(-1, np.int32)
_PAIR = np.array([2], np.int32)


def _tensor(number: int) -> Any:
    return np.array([number, number + 1], np.float32)


def _number(item: Any) -> int | None:
    return None if item is None else int(item[0])


class Lists(RuleBasedStateMachine):
    """Every list ever made is kept beside a tuple that says what it holds, and none may change."""

    def __init__(self) -> None:
        super().__init__()
        empty = TensorList(_FLOAT, TensorShape([2]))
        self.made: list[tuple[TensorList, tuple[int | None, ...]]] = [(empty, ())]

    def _pick(self, choice: int) -> tuple[TensorList, tuple[int | None, ...]]:
        return self.made[choice % len(self.made)]

    @rule(choice=st.integers(0, 99), number=st.integers(0, 99))
    def push(self, choice: int, number: int) -> None:
        tensors, model = self._pick(choice)
        pushed = ops.tensor_list_push_back(tensors, _tensor(number), element_dtype=_FLOAT)
        self.made.append((pushed, (*model, number)))

    @rule(choice=st.integers(0, 99))
    def pop(self, choice: int) -> None:
        tensors, model = self._pick(choice)
        if not model:
            with pytest.raises(InvalidArgumentError, match="empty list"):
                ops.tensor_list_pop_back(tensors, _PAIR, element_dtype=_FLOAT)
            return
        popped, last = ops.tensor_list_pop_back(tensors, _PAIR, element_dtype=_FLOAT)
        np.testing.assert_array_equal(last, np.zeros(2) if model[-1] is None else _tensor(model[-1]))
        self.made.append((popped, model[:-1]))

    @rule(choice=st.integers(0, 99), index=st.integers(-1, 5), number=st.integers(0, 99))
    def set_item(self, choice: int, index: int, number: int) -> None:
        tensors, model = self._pick(choice)
        if not 0 <= index < len(model):
            with pytest.raises(InvalidArgumentError, match=f"element {index} in a list with {len(model)}"):
                ops.tensor_list_set_item(tensors, np.int32(index), _tensor(number), element_dtype=_FLOAT)
            return
        changed = ops.tensor_list_set_item(tensors, np.int32(index), _tensor(number), element_dtype=_FLOAT)
        self.made.append((changed, (*model[:index], number, *model[index + 1 :])))

    @rule(choice=st.integers(0, 99), size=st.integers(0, 6))
    def resize(self, choice: int, size: int) -> None:
        tensors, model = self._pick(choice)
        resized = ops.tensor_list_resize(tensors, np.int32(size))
        self.made.append((resized, (model + (None,) * size)[:size]))

    @rule(choice=st.integers(0, 99), beyond=st.integers(0, 3), number=st.integers(0, 99))
    def set_behind_the_end(self, choice: int, beyond: int, number: int) -> None:
        tensors, model = self._pick(choice)
        index = np.int32(len(model) + beyond)
        grown = ops.tensor_list_set_item(
            tensors, index, _tensor(number), element_dtype=_FLOAT, resize_if_index_out_of_bounds=True
        )
        self.made.append((grown, (*model, *[None] * beyond, number)))

    @rule(choice=st.integers(0, 99))
    def forget(self, choice: int) -> None:
        """The others must not notice that one is gone, though they may have its storage for themselves."""
        if len(self.made) > 1:
            del self.made[choice % len(self.made)]

    @rule(choice=st.integers(0, 99), index=st.integers(0, 9))
    def get_item(self, choice: int, index: int) -> None:
        tensors, model = self._pick(choice)
        if index < len(model):
            item: Any = tensors.get(index)
            assert _number(item) == model[index]

    @invariant()
    def all_hold_what_they_held(self) -> None:
        for tensors, model in self.made:
            assert tensors.length == len(model)
            for tensor, number in zip(tensors.tensors(), model, strict=True):
                if number is None:
                    assert tensor is None
                else:
                    np.testing.assert_array_equal(tensor, _tensor(number))


TestLists = Lists.TestCase
TestLists.settings = settings(stateful_step_count=25, max_examples=examples(40))


def test_lists_that_come_of_one_another_share_a_storage() -> None:
    """Nothing is copied where only the newest list is used: what it costs does not grow with its length."""
    tensors = TensorList(_FLOAT, TensorShape([2]))
    storage = tensors.storage
    for number in range(100):
        tensors = tensors.pushed(_tensor(number))
    for number in range(100):
        tensors = tensors.with_element(number, _tensor(-number))
    for number in range(100, 120):
        tensors = ops.tensor_list_set_item(
            tensors,
            np.int32(number),
            _tensor(-number),
            element_dtype=_FLOAT,
            resize_if_index_out_of_bounds=True,
        )
    assert tensors.storage is storage
    assert [_number(tensor) for tensor in tensors.tensors()] == [-number for number in range(120)]
    for _ in range(50):
        tensors, _ = ops.tensor_list_pop_back(tensors, _PAIR, element_dtype=_FLOAT)
    assert tensors.storage is storage
    assert len(storage) <= tensors.length + 1, "what was popped is let go"


def test_a_list_that_is_kept_gets_a_storage_of_its_own_once() -> None:
    kept = TensorList(_FLOAT, TensorShape([2]), [_tensor(0), _tensor(1)])
    newest = kept
    for number in range(10):
        newest = newest.with_element(1, _tensor(number))
    storage = newest.storage
    assert _number(kept.get(1)) == 1
    own = kept.storage
    assert own is not storage
    assert _number(kept.get(0)) == 0
    assert kept.storage is own
    assert newest.storage is storage


def test_a_list_that_is_kept_and_not_read_is_not_remembered_change_by_change() -> None:
    kept = TensorList(_FLOAT, TensorShape([2]), [_tensor(0)] * 3)
    first, newest = kept.storage, kept
    storages = set()
    for number in range(1000):
        newest = newest.with_element(1, _tensor(number))
        storages.add(id(newest.storage))
    assert len(storages) == 2
    assert newest.storage is not first
    assert [_number(kept.get(index)) for index in range(3)] == [0, 0, 0]


def test_threads_that_push_onto_one_list_or_set_it_do_not_meet() -> None:
    base = TensorList(_FLOAT, TensorShape([]))
    filled = TensorList(_FLOAT, TensorShape([]), [np.float32(0.0)] * 3)
    wrong: list[str] = []

    def push(mark: float) -> None:
        for _ in range(2000):
            pushed = base.pushed(np.float32(mark))
            if pushed.length != 1 or pushed.get(0) != mark:
                wrong.append(repr(pushed))
            changed = filled.with_element(1, np.float32(mark))
            if changed.tensors() != [0, mark, 0] or filled.get(1) != 0:
                wrong.append(repr(changed))

    threads = [threading.Thread(target=push, args=(mark,)) for mark in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_to_and_from_tensors(run_op: Run) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    (tensors,) = run_op("TensorListFromTensor", x, _PAIR, types={"element_dtype": "float32"})
    np.testing.assert_array_equal(run_op("TensorListStack", tensors, _PAIR, element_dtype=_FLOAT)[0], x)
    (gathered,) = run_op("TensorListGather", tensors, np.array([2, 0]), _UNKNOWN, element_dtype=_FLOAT)
    np.testing.assert_array_equal(gathered, x[[2, 0]])
    joined, lengths = run_op("TensorListConcat", tensors, element_dtype=_FLOAT)
    np.testing.assert_array_equal(joined, x.reshape(-1))
    assert lengths.tolist() == [2, 2, 2]
    (parts,) = run_op("TensorListSplit", joined, np.array([-1], np.int32), np.array([1, 0, 5]))
    assert [t.tolist() for t in parts.tensors()] == [[0], [], [1, 2, 3, 4, 5]]
    (scattered,) = run_op("TensorListScatter", x, np.array([3, 0, 1]), _PAIR)
    assert scattered.length == 4
    (stacked,) = run_op("TensorListStack", scattered, _PAIR, element_dtype=_FLOAT)
    np.testing.assert_array_equal(stacked, [x[1], x[2], [0, 0], x[0]])
    assert run_op("TensorListLength", scattered)[0] == 4
    assert run_op("TensorListElementShape", scattered, shape_type=dtypes.int32)[0].tolist() == [2]


def test_elements_that_were_never_set_are_zeros_once_their_shape_is_known(run_op: Run) -> None:
    (tensors,) = run_op("TensorListReserve", _UNKNOWN, np.int32(2), element_dtype=_FLOAT)
    with pytest.raises(InvalidArgumentError, match="uninitialized"):
        run_op("TensorListGetItem", tensors, np.int32(0), _UNKNOWN, element_dtype=_FLOAT)
    with pytest.raises(InvalidArgumentError, match="non-fully-defined"):
        run_op("TensorListStack", tensors, _UNKNOWN, element_dtype=_FLOAT)
    assert run_op("TensorListGetItem", tensors, np.int32(0), _PAIR, element_dtype=_FLOAT)[0].tolist() == [
        0,
        0,
    ]
    (changed,) = run_op("TensorListSetItem", tensors, np.int32(1), _tensor(4))
    # The other element's shape tells this one's.
    assert run_op("TensorListGetItem", changed, np.int32(0), _UNKNOWN, element_dtype=_FLOAT)[0].shape == (2,)


def test_what_does_not_fit_is_refused(run_op: Run) -> None:
    (tensors,) = run_op("EmptyTensorList", _PAIR, np.int32(1), element_dtype=_FLOAT)
    with pytest.raises(InvalidArgumentError, match=r"Op element shape: \[3\] list shape: \[2\]"):
        run_op("TensorListPushBack", tensors, np.zeros(3, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"op elements .*int32 but list elements .*float32"):
        run_op("TensorListPushBack", tensors, np.zeros(2, np.int32))
    (full,) = run_op("TensorListPushBack", tensors, _tensor(1))
    with pytest.raises(InvalidArgumentError, match="full list"):
        run_op("TensorListPushBack", full, _tensor(2))
    with pytest.raises(InvalidArgumentError, match="not a list: float32"):
        run_op("TensorListLength", np.zeros(2, np.float32))
    with pytest.raises(InvalidArgumentError, match="list with 3 elements but got a list with 1"):
        run_op("TensorListStack", full, _PAIR, num_elements=3, element_dtype=_FLOAT)


def test_lists_add_and_vanish(run_op: Run) -> None:
    a = TensorList(_FLOAT, TensorShape([2]), [_tensor(1), None])
    b = TensorList(_FLOAT, TensorShape([2]), [_tensor(2), _tensor(3)])
    (total,) = run_op("AddN", [a, b], types={"T": "variant"})
    assert [t.tolist() for t in total.tensors()] == [[3, 5], [3, 4]]
    (zeros,) = run_op("ZerosLike", b, types={"T": "variant"})
    assert [t.tolist() for t in zeros.tensors()] == [[0, 0], [0, 0]]
    with pytest.raises(InvalidArgumentError, match="different lengths"):
        run_op("AddN", [a, zeros.pushed(_tensor(0))], types={"T": "variant"})


def test_tensors_of_lists(run_op: Run) -> None:
    a = TensorList(_FLOAT, TensorShape([2]), [_tensor(1)])
    b = TensorList(_FLOAT, TensorShape([2]), [])
    (pair,) = run_op("Pack", [a, b], types={"T": "variant"})
    assert pair.shape == (2,)
    (pushed,) = run_op("TensorListPushBackBatch", pair, np.array([[5, 6], [7, 8]], np.float32))
    assert [t.length for t in pushed] == [2, 1]
    (joined,) = run_op("TensorListConcatLists", pair, pushed, element_dtype=_FLOAT)
    assert [t.length for t in joined] == [3, 1]
    first, second = run_op("Unpack", pair, num=2, types={"T": "variant"})
    assert first is a
    assert second is b


def test_joining_needs_lengths_for_what_was_never_set(run_op: Run) -> None:
    tensors = TensorList(_FLOAT, TensorShape([None, 2]), [np.ones((1, 2), np.float32), None])
    with pytest.raises(InvalidArgumentError, match="leading_dims has only 0 elements"):
        run_op("TensorListConcat", tensors, element_dtype=_FLOAT)
    joined, lengths = run_op(
        "TensorListConcatV2", tensors, np.array([-1, 2], np.int32), np.array([1, 2]), element_dtype=_FLOAT
    )
    np.testing.assert_array_equal(joined, [[1, 1], [0, 0], [0, 0]])
    assert lengths.tolist() == [1, 2]
    scalars = TensorList(_FLOAT, TensorShape([]), [np.float32(1)])
    with pytest.raises(InvalidArgumentError, match="scalars instead"):
        run_op("TensorListConcat", scalars, element_dtype=_FLOAT)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([1, 1], "must add up to 3"), ([4, -1], "Invalid value in lengths"), ([[3]], "must be a vector")],
)
def test_splitting_refuses_lengths_that_do_not_fit(run_op: Run, lengths: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run_op("TensorListSplit", np.zeros((3, 2), np.float32), _UNKNOWN, np.array(lengths))


def test_scattering_into_a_list(run_op: Run) -> None:
    rows = np.arange(4, dtype=np.float32).reshape(2, 2)
    (sized,) = run_op("TensorListScatterV2", rows, np.array([2, 0]), _PAIR, np.int32(4))
    assert [t is None for t in sized.tensors()] == [False, True, False, True]
    (changed,) = run_op("TensorListScatterIntoExistingList", sized, rows, np.array([1, 5]))
    assert changed.length == 6
    assert changed.get(1).tolist() == [0, 1]
    assert sized.get(1) is None
    with pytest.raises(InvalidArgumentError, match="index 2 in list with size 2"):
        run_op("TensorListScatterV2", rows, np.array([2, 0]), _PAIR, np.int32(2))
    with pytest.raises(InvalidArgumentError, match="non-negative, but there is -1"):
        run_op("TensorListScatter", rows, np.array([-1, 0]), _PAIR)
    with pytest.raises(InvalidArgumentError, match="Expected: 1 Actual: 2"):
        run_op("TensorListScatter", rows, np.array([1]), _PAIR)


def test_setting_behind_the_end_makes_a_list_longer_on_demand(run_op: Run) -> None:
    one = TensorList(_FLOAT, TensorShape([2]), [_tensor(1)])
    (longer,) = run_op(
        "TensorListSetItem",
        one,
        np.int32(3),
        _tensor(5),
        element_dtype=_FLOAT,
        resize_if_index_out_of_bounds=True,
    )
    assert [None if t is None else t.tolist() for t in longer.tensors()] == [[1, 2], None, None, [5, 6]]
    assert one.length == 1
    with pytest.raises(InvalidArgumentError, match="element -1"):
        run_op(
            "TensorListSetItem",
            one,
            np.int32(-1),
            _tensor(5),
            element_dtype=_FLOAT,
            resize_if_index_out_of_bounds=True,
        )


@pytest.mark.parametrize("index", [2**31 - 2, 2**31 - 1])
async def test_an_index_far_behind_the_end_does_not_fill_the_memory(index: int) -> None:
    graph = fe.Graph()
    nodes, constant = graph.ops, graph.constant
    shape = constant(np.zeros(0, np.int32))
    empty = nodes.TensorListReserve(shape, constant(1), element_dtype="float32")
    where = constant(np.int32(index))
    made = [
        nodes.TensorListSetItem(empty, where, constant(1.0), resize_if_index_out_of_bounds=True),
        nodes.TensorListResize(empty, where),
        nodes.TensorListReserve(shape, where, element_dtype="float32"),
    ]
    lengths = [nodes.TensorListLength(each) for each in made]
    async with fe.Session(graph) as session:
        for length in lengths:
            with pytest.raises(fe.errors.ResourceExhaustedError, match="elements that are not initialized"):
                await session.run(length)


def test_zeros_of_a_list_of_optionals_are_optionals_of_zeros() -> None:
    graph = fe.Graph()
    ops = graph.ops
    shape = np.zeros(0, np.int32)
    items = ops.EmptyTensorList(shape, -1, element_dtype="variant")
    for optional in (ops.OptionalNone(), ops.OptionalFromValue([graph.constant([1.5, 2.5])])):
        items = ops.TensorListPushBack(items, optional)
    rest, last = ops.TensorListPopBack(ops.ZerosLike(items), shape, element_dtype="variant")
    (zeros,) = ops.OptionalGetValue(last, output_types=["float32"], output_shapes=[[2]])
    first = ops.TensorListPopBack(rest, shape, element_dtype="variant").tensor
    with fe.blocking.Session(graph) as session:
        values, has_value = session.run([zeros, ops.OptionalHasValue(first)])
    np.testing.assert_array_equal(values, [0.0, 0.0])
    assert not has_value
