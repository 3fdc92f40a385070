"""SavedModels: graphs with signatures and a checkpoint, as TensorFlow 1 and 2 write them.

>>> graph = fe.Graph()
>>> x = graph.placeholder("float32", [None], name="x")
>>> y = x * graph.variable(2.0, name="w")
>>> async def main():
...     async with fe.Session(graph) as session:
...         await session.initialize()
...         signatures = {"serving_default": ({"x": x}, {"y": y})}
...         await fe.saved_model.save(session, "export", signatures=signatures)
...     async with await fe.saved_model.load("export") as model:
...         print(await model(x=[1.0, 2.0]), await model.variables["w"].read())
>>> trio.run(main)
{'y': array([2., 4.], dtype=float32)} 2.0
>>> saved = fe.saved_model.read_saved_model("export")
>>> print(saved.signatures["serving_default"].described())
signature 'serving_default' (x float32 [?] -> y float32 [?])

Names are resolved when first used: using one part does not import the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from flowengine.core.public_names.missing import missing_name

if TYPE_CHECKING:
    from flowengine.saved_model.batching import BatchedSignature
    from flowengine.saved_model.functions import ModelFunction
    from flowengine.saved_model.loading import load, restore
    from flowengine.saved_model.model import Model, ModelVariable
    from flowengine.saved_model.model_signature import ModelSignature
    from flowengine.saved_model.reading import SavedGraph, read_saved_model
    from flowengine.saved_model.saving import save
    from flowengine.saved_model.signatures import SignatureTensor, SparseValue

#: {public name: module}
_PUBLIC: Final[dict[str, str]] = {
    "BatchedSignature": "flowengine.saved_model.batching",
    "Model": "flowengine.saved_model.model",
    "ModelFunction": "flowengine.saved_model.functions",
    "ModelSignature": "flowengine.saved_model.model_signature",
    "ModelVariable": "flowengine.saved_model.model",
    "SavedGraph": "flowengine.saved_model.reading",
    "SignatureTensor": "flowengine.saved_model.signatures",
    "SparseValue": "flowengine.saved_model.signatures",
    "load": "flowengine.saved_model.loading",
    "read_saved_model": "flowengine.saved_model.reading",
    "restore": "flowengine.saved_model.loading",
    "save": "flowengine.saved_model.saving",
}

__all__ = [
    "BatchedSignature",
    "Model",
    "ModelFunction",
    "ModelSignature",
    "ModelVariable",
    "SavedGraph",
    "SignatureTensor",
    "SparseValue",
    "load",
    "read_saved_model",
    "restore",
    "save",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _PUBLIC:
            raise missing_name(__name__, name, __all__)
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names only."""
    return sorted(__all__)
