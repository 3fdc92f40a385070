"""Errors about names that are elsewhere: they say where, it is true, and unread they cost nothing."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.public_names import elsewhere
from flowengine.core.public_names.missing import MissingAttributeError

GRAPH = fe.Graph()
TENSOR = GRAPH.constant([1.0, 2.0], name="c")
VARIABLE = GRAPH.variable(1.0, name="v")
SESSION = fe.Session(GRAPH)

#: Where the texts of `elsewhere` begin.
ROOTS = {"fe": fe, "graph": GRAPH, "session": SESSION, "variable": VARIABLE, "tensor": TENSOR}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Adam", "flowengine has no attribute 'Adam': it is fe.optimizers.Adam"),
        ("Variable", "use graph.variable(initial_value)"),
        ("get_variable", "it is graph.get_variable"),
        ("cond", "it is graph.cond"),
        ("Placeholder", "it is graph.placeholder"),
        ("placeholder", "it is graph.placeholder"),
        ("while_loop", "use graph.while_loop"),
        ("float32", "it is fe.dtypes.float32"),
        ("keras", "use fe.layers, fe.optimizers"),
        ("global_variables_initializer", "use session.initialize()"),
        ("relu", "it is fe.nn.relu"),
        ("MatMul", "it is fe.matmul"),
        ("SparseTensorDenseMatMul", "it is graph.ops.SparseTensorDenseMatMul"),
        ("matmull", "; did you mean 'matmul'?"),
        ("train.AdamOptimizer", "fe.train has no attribute 'AdamOptimizer': it is fe.optimizers.Adam"),
        ("train.GradientDescentOptimizer", "use fe.optimizers.SGD"),
        ("train.exponential_decay", "it is fe.schedules.exponential_decay"),
        ("layers.Dense", "it is fe.layers.dense"),
        ("optimizers.Adma", "fe.optimizers has no attribute 'Adma'; did you mean 'Adam'"),
        ("nn.embedding_lookup", "use fe.embedding.lookup"),
        ("losses.CrossEntropyLoss", "use fe.losses.sparse_softmax_cross_entropy"),
        ("blocking.Graph", "it is fe.Graph"),
        ("saved_model.lod", "; did you mean 'load'?"),
        ("testing.chek_kernel", "; did you mean 'check_kernel'?"),
        ("data.TFRecordDataset", "use fe.data.Dataset.tf_records"),
    ],
)
def test_a_name_of_another_library_says_where_it_is(asked: str, told: str) -> None:
    module, _, name = asked.rpartition(".")
    owner = getattr(fe, module) if module else fe
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert told in str(caught.value)
    assert told in str(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize(
    ("owner", "asked", "told"),
    [
        (TENSOR, "numpy", "'Tensor' object has no attribute 'numpy': use session.run(tensor)"),
        (TENSOR, "eval", "use session.run(tensor)"),
        (TENSOR, "get_shape", "use tensor.shape"),
        (TENSOR, "mean", "use fe.reduce_mean"),
        (TENSOR, "reshape", "it is fe.reshape"),
        (TENSOR, "shpe", "; did you mean 'shape'"),
        (VARIABLE, "eval", "use session.run(tensor)"),
        (VARIABLE, "asign", "; did you mean 'assign'"),
        (GRAPH, "get_tensor_by_name", "use graph.tensor(name)"),
        (GRAPH, "trainable_variables", 'use graph.collection("trainable_variables")'),
        (GRAPH, "placehoder", "; did you mean 'placeholder'"),
        (GRAPH, "matmul", "it is fe.matmul"),
        (SESSION, "list_devices", "use session.devices"),
        (SESSION, "runn", "; did you mean 'run'?"),
    ],
)
def test_an_attribute_of_another_library_says_what_to_write(owner: Any, asked: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, asked)
    assert told in str(caught.value)


@pytest.mark.parametrize("table", elsewhere.__all__)
def test_what_the_texts_name_is_there(table: str) -> None:
    for asked, text in getattr(elsewhere, table).items():
        for root, path in re.findall(r"\b(fe|graph|session|variable|tensor)((?:\.\w+)+)", text):
            owner: Any = ROOTS[root]
            for name in path.split(".")[1:]:
                assert hasattr(owner, name), f"{asked}: {text}: {root}{path}"
                owner = getattr(owner, name)


@pytest.mark.parametrize("table", elsewhere.__all__)
def test_no_text_is_for_a_name_that_is_there(table: str) -> None:
    owner: Any = {"OF_MODULES": fe, "OF_TENSORS": TENSOR, "OF_GRAPHS": GRAPH, "OF_SESSIONS": SESSION}[table]
    assert [name for name in getattr(elsewhere, table) if hasattr(owner, name)] == []


@given(st.text(st.characters(codec="ascii", categories=["L", "Nd"]), min_size=1).map("x_{}".format))
def test_any_other_name_is_a_plain_attribute_error(name: str) -> None:
    for owner in (fe, fe.train, TENSOR, GRAPH, SESSION):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(owner, name)


def test_an_error_that_nobody_reads_looks_for_nothing() -> None:
    """`from package import module` and `hasattr` ask for names that are not there, and swallow the error."""
    code = (
        "import sys, flowengine as fe, flowengine.client.layers\n"
        "assert not hasattr(fe, 'Adam') and not hasattr(fe.layers, 'Dense')\n"
        "assert not hasattr(fe.Graph().constant(1), 'numpy')\n"
        "print([name for name in sys.modules if name == 'difflib' or name.endswith('.elsewhere')])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_python_adds_no_second_suggestion() -> None:
    with pytest.raises(MissingAttributeError) as caught:
        fe.matmull  # type: ignore[attr-defined]  # noqa: B018
    assert caught.value.obj is None


@pytest.mark.parametrize(
    "name",
    [name for name in fe.__all__ if isinstance(getattr(fe, name), ModuleType) and name != "gradients"],
)
def test_a_public_module_lists_its_public_names_only(name: str) -> None:
    module = getattr(fe, name)
    assert dir(module) == sorted(module.__all__)
    for public in dir(module):
        assert getattr(module, public) is getattr(importlib.import_module(module.__name__), public)
