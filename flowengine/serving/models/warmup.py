"""The requests that warm a version up before it answers: `assets.extra/tf_serving_warmup_requests`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import trio
from google.protobuf.message import DecodeError

from flowengine.core.errors import DataLossError, InvalidArgumentError, OpError
from flowengine.ir.tensorproto import decode_tensor
from flowengine.resources.records import source_of
from flowengine.resources.tf_records import tf_records
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE
from flowengine.serving.models.versions import ServedVersion
from flowengine.serving.proto import PredictionLog

_FILE: Final = Path("assets.extra", "tf_serving_warmup_requests")
#: As many requests as TensorFlow Serving takes.
_REQUESTS_MAX: Final = 1000


async def warm_up(version: ServedVersion) -> int:
    """Run the warm-up requests of a version, and return their number; 0 if it has none.

    Raises DataLossError for a damaged file, InvalidArgumentError for more than 1,000 requests or a kind that
    is not served, and what a request fails with: such a version is not to answer.
    """
    file = version.folder / _FILE
    records = await trio.to_thread.run_sync(_records, file)
    for place, record in enumerate(records):
        try:
            signature, inputs = _request(record)
            if signature not in version.signatures:
                raise InvalidArgumentError(f"there is no signature '{signature}'")
            await version.call(signature, inputs)
        except OpError as error:
            error.message = f"warm-up request {place + 1} of {len(records)}: {error.message}"
            raise
    return len(records)


def _records(file: Path) -> list[bytes]:
    """Read all records, on a thread; none if there is no such file."""
    if not file.exists():
        return []
    name = os.fsencode(file.name)
    records: list[bytes] = []
    with file.open("rb") as opened:
        for block in tf_records(source_of(opened, "", name), name):
            records += [record for _, record in block]
            if len(records) > _REQUESTS_MAX:
                raise InvalidArgumentError(f"{file.name}: it has more than {_REQUESTS_MAX} warm-up requests")
    return records


def _request(record: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the signature and the inputs of a logged request."""
    try:
        log = PredictionLog.FromString(record)
    except DecodeError:
        raise DataLossError(f"{_FILE.name}: a record is no PredictionLog") from None
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        inputs = {name: decode_tensor(tensor) for name, tensor in request.inputs.items()}
        return request.model_spec.signature_name or DEFAULT_SIGNATURE, inputs
    if kind not in ("classify_log", "regress_log"):
        raise InvalidArgumentError(f"{_FILE.name}: requests are predictions, classifications or regressions")
    asked = log.classify_log.request if kind == "classify_log" else log.regress_log.request
    examples = np.array([each.SerializeToString() for each in _examples(asked.input)], object)
    return asked.model_spec.signature_name or DEFAULT_SIGNATURE, {"inputs": examples}


def _examples(given: Any) -> Iterator[Any]:
    """Return the Examples of a request, with the features of their context."""
    if given.WhichOneof("kind") == "example_list_with_context":
        for each in given.example_list_with_context.examples:
            merged = type(each)()
            merged.CopyFrom(given.example_list_with_context.context)
            merged.MergeFrom(each)
            yield merged
    else:
        yield from given.example_list.examples


__all__ = ["warm_up"]
