"""MLServer's side of the benchmark of serving: the same product by NumPy, as a runtime of its own.

`implementation` of a `model-settings.json`; the weights are the file `weights.npz` beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class DenseLayers(MLModel):  # type: ignore[misc]
    """Layers of relu(x @ weights)."""

    async def load(self) -> bool:
        """Read the weights."""
        folder = Path(self.settings.parameters.uri)
        with np.load(folder / "weights.npz") as file:
            self._weights = [file[name] for name in file.files]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one request."""
        x = NumpyCodec.decode_input(payload.inputs[0]).astype(np.float32, copy=False)
        for each in self._weights:
            x = np.maximum(x @ each, 0)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", x)])
