"""Strings: joining, cutting, searching, and their numbers. Elements are bytes.

`input`, `inputs` and `string_tensor` are tensors of type string, or values that become constants. A pattern
that is no RE2 pattern is an error of the step. `precision`, `scientific`, `shortest`, `width` and `fill` are
those of printf; `encoding` is "" or "utf-8"; `unit` is "BYTE" or "UTF8_CHAR".

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(value.tolist())
>>> words = graph.constant(["Ada", " Bob "])
>>> show(fe.string_lower(words), fe.string_upper(words), fe.string_strip(words), fe.string_length(words))
[b'ada', b' bob ']
[b'ADA', b' BOB ']
[b'Ada', b'Bob']
[3, 5]
>>> show(fe.string_join([words, "!"], separator="-"), fe.substr(words, 1, 2), fe.reduce_join(words))
[b'Ada-!', b' Bob -!']
[b'da', b'Bo']
b'Ada Bob '
>>> show(fe.regex_replace(words, "[a-z]", "."), fe.regex_full_match(words, "A.*"))
[b'A..', b' B.. ']
[True, False]
>>> show(fe.as_string(graph.constant([1.5, 2.0]), precision=2), fe.string_to_number(graph.constant("2.5")))
[b'1.50', b'2.00']
2.5
>>> show(fe.string_to_hash_bucket_fast(words, 100))
[14, 66]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.graphs.conversion import TensorLike
from flowengine.graphs.functions.support import one, tensor_of
from flowengine.graphs.tensor import Tensor


def string_join(inputs: Sequence[TensorLike], separator: str = "", name: str | None = None) -> Tensor:
    """Return strings of several tensors one behind the other, element by element.

    A single one is repeated.
    """
    return one("StringJoin", list(inputs), separator=separator, name=name)


def string_length(input: TensorLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return the length of each string, int32: in bytes, or with unit "UTF8_CHAR" in characters."""
    return one("StringLength", input, unit=unit, name=name)


def string_lower(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to lower case; of encoding "utf-8" all alphabets, else ASCII."""
    return one("StringLower", input, encoding=encoding, name=name)


def string_upper(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to upper case; of encoding "utf-8" all alphabets, else ASCII."""
    return one("StringUpper", input, encoding=encoding, name=name)


def string_strip(input: TensorLike, name: str | None = None) -> Tensor:
    """Remove white space at both ends."""
    return one("StringStrip", input, name=name)


def substr(
    input: TensorLike, pos: TensorLike, len: TensorLike, name: str | None = None, unit: str = "BYTE"
) -> Tensor:
    """Return the part of each string that begins at `pos` and is `len` long.

    Negative places count from the end.
    """
    return one("Substr", input, pos, len, unit=unit, name=name)


def as_string(
    input: TensorLike,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Return numbers or bool as text, as printf writes them."""
    return one(
        "AsString",
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )


def string_to_number(
    string_tensor: TensorLike, out_type: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Return the number that each string spells; `out_type` is float32, float64, int32 or int64.

    Else an error of the step.
    """
    return one("StringToNumber", string_tensor, out_type=as_dtype(out_type), name=name)


def string_to_hash_bucket_fast(input: TensorLike, num_buckets: int, name: str | None = None) -> Tensor:
    """Return a number below num_buckets for each string, int64: equal for equal strings, in every session."""
    return one("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)


def regex_replace(
    input: TensorLike,
    pattern: TensorLike,
    rewrite: TensorLike,
    replace_global: bool = True,
    name: str | None = None,
) -> Tensor:
    r"""Replace the matches of an RE2 pattern, all or (`replace_global` False) only one.

    `\1` in `rewrite` is the first group.
    """
    return one("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input: TensorLike, pattern: TensorLike, name: str | None = None) -> Tensor:
    """Whether the whole of each string matches an RE2 pattern: bool."""
    return one("RegexFullMatch", input, pattern, name=name)


def reduce_join(
    inputs: TensorLike,
    axis: Any = None,
    keep_dims: bool = False,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """Return strings joined along axes; along all of them, the last first, if `axis` is None.

    `separator` is put between them; with `keep_dims` a reduced axis stays with length 1.
    """
    x = tensor_of(inputs)
    if axis is None:
        count = x.shape.rank
        axis = (
            x.graph.ops.Range(x.graph.ops.Rank(x) - 1, -1, -1) if count is None else [*reversed(range(count))]
        )
    return one("ReduceJoin", x, axis, keep_dims=keep_dims, separator=separator, name=name)


__all__ = [
    "as_string",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "string_join",
    "string_length",
    "string_lower",
    "string_strip",
    "string_to_hash_bucket_fast",
    "string_to_number",
    "string_upper",
    "substr",
]
