"""The fields `parameters` of requests, inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from flowengine.core.errors import InvalidArgumentError

#: Parameters of Triton's sequences, which keep state between requests.
_SEQUENCES: Final = ("sequence_id", "sequence_start", "sequence_end")


class RequestParameters(NamedTuple):
    """The parameters of a request that mean something here.

    signature         the signature to run; None for the default one
    binary_outputs    whether outputs that say nothing else are binary data
    timeout_seconds   how long the step may take; None for no bound
    """

    signature: str | None
    binary_outputs: bool
    timeout_seconds: float | None


def read_parameters(document: Mapping[str, Any]) -> RequestParameters:
    """Read the parameters of a request; parameters of unknown names are passed over.

    Raises InvalidArgumentError for values of the wrong kind, reserved names, and sequences.
    """
    given = parameters_of(document, "the request")
    for name, value in given.items():
        if name.startswith("triton_"):
            raise InvalidArgumentError(
                "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
                "specified."
            )
        if name in _SEQUENCES:
            raise InvalidArgumentError(f"sequences are not supported: leave '{name}' out")
        if not isinstance(value, str | int | float):
            raise InvalidArgumentError(
                f"parameter '{name[:100]}' has invalid type. It should be either 'int', 'bool', or 'string'."
            )
    binary = given.get("binary_data_output", False)
    if not isinstance(binary, bool):
        raise InvalidArgumentError("Unable to parse 'binary_data_output': it is no boolean")
    signature = given.get("signature_name")
    if signature is not None and not isinstance(signature, str):
        raise InvalidArgumentError("Unable to parse 'signature_name': it is no string")
    _whole(given, "priority")
    microseconds = _whole(given, "timeout")
    return RequestParameters(signature, binary, microseconds / 1e6 if microseconds else None)


def parameters_of(given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the parameters of a part of a request, {} if it has none; InvalidArgumentError for no object.

    where   the part, for the message
    """
    found = given.get("parameters", {})
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"Unable to parse 'parameters' of {where}: it is no object")
    return found


def _whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name, 0)
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(f"Unable to parse '{name}': it is no whole number from 0")
    return value


__all__ = ["RequestParameters", "parameters_of", "read_parameters"]
