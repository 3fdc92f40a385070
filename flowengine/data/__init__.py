r"""Input pipelines in Python: datasets over the engine's own resources, iterated with `async for`.

>>> from flowengine.data import Dataset
>>> async def listed(dataset):
...     return [element async for element in dataset]
>>> def show(dataset):
...     print(*trio.run(listed, dataset))
>>> show(Dataset.range(10).shuffle(10, seed=7).cache().batch(4, drop_remainder=True).prefetch(1))
[2 8 6 5] [9 1 0 3]
>>> show(Dataset.range(9).filter(lambda n: n > 4).skip(1).take(2).concatenate(Dataset.random(3).take(0)))
6 7
>>> show(Dataset.from_slices([3, 4]).enumerate(start=1).map(lambda n, value: n * value))
3 8
>>> generated = Dataset.from_generator(lambda: iter([5, 6]), ["int64"], [[]])
>>> show(Dataset.zip(Dataset.range(2), generated).map(lambda n, value: n + value))
5 7
>>> show(Dataset.range(3).flat_map(lambda n: Dataset.range(int(n))))
0 0 1
>>> show(Dataset.range(1, 3).interleave(lambda n: Dataset.from_tensors(n).repeat(2), cycle_length=2))
1 2 1 2
>>> totals = Dataset.range(6).scan(np.int64(0), lambda total, n: (total + n, total + n))
>>> show(totals.take_while(lambda total: total < 9))
0 1 3 6
>>> show(Dataset.range(4).sliding_window(3).unbatch().unique().ignore_errors())
0 1 2 3
>>> show(Dataset.choose_from([Dataset.range(3), Dataset.range(10, 13)], Dataset.from_slices([1, 0, 1])))
10 0 11
>>> show(Dataset.range(1, 4).map(lambda n: fe.ones([n])).padded_batch(2, [[-1]]).assert_cardinality(2))
[[1. 0.]
 [1. 1.]] [[1. 1. 1.]]
>>> def halves(dataset):
...     return dataset.shard(2, 0)
>>> trio.run(Dataset.range(5).apply(halves).reduce, np.int64(0), lambda total, n: total + n).tolist()
6
>>> trio.run(Dataset.range(3).save, "kept")
>>> show(Dataset.load("kept", ["int64"]))
0 1 2
>>> from pathlib import Path
>>> count = Path("words.txt").write_text("one\ntwo\n")
>>> show(Dataset.text_lines("words.txt"))
b'one' b'two'
>>> show(Dataset.fixed_length_records("words.txt", 4))
b'one\n' b'two\n'
>>> count = Path("empty.tfrecord").write_bytes(b"")
>>> trio.run(listed, Dataset.tf_records("empty.tfrecord"))
[]
>>> async def first(dataset):
...     async with dataset.elements() as elements:
...         return await anext(elements)
>>> trio.run(first, Dataset.range(5)).tolist()
0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.core.public_names.missing import public_module
from flowengine.data.dataset import Dataset
from flowengine.data.elements import Elements

__all__ = ["Dataset", "Elements"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
