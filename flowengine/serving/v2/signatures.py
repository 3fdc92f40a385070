"""The signature that a request is for: the protocol knows models with inputs and outputs only."""

from __future__ import annotations

from collections.abc import Mapping

from flowengine.core.errors import InvalidArgumentError
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE, SignatureFacts, SignatureTensor
from flowengine.serving.v2.datatypes import datatype_of, dtype_of


def chosen_signature(
    model: str, signatures: Mapping[str, SignatureFacts], name: str | None = None
) -> SignatureFacts:
    """Return the signature with a name; without one "serving_default", or the only one.

    Raises InvalidArgumentError if there is none, or more than one to choose from.
    """
    if name is None:
        if DEFAULT_SIGNATURE in signatures:
            return signatures[DEFAULT_SIGNATURE]
        if len(signatures) == 1:
            return next(iter(signatures.values()))
        raise InvalidArgumentError(
            f"model '{model}' has no signature '{DEFAULT_SIGNATURE}': give the parameter 'signature_name', "
            f"one of {', '.join(sorted(signatures)[:20]) or 'none'}"
        )
    if name not in signatures:
        raise InvalidArgumentError(f"model '{model}' has no signature {name[:100]!r}")
    return signatures[name]


def check_dense(what: str, tensor: SignatureTensor) -> None:
    """InvalidArgumentError for a tensor that the protocol cannot carry, by structure or type."""
    if tensor.is_sparse or tensor.is_composite or dtype_of(datatype_of(tensor.dtype)) is None:
        raise InvalidArgumentError(f"{what} is a {tensor}, which this protocol cannot carry")


__all__ = ["check_dense", "chosen_signature"]
