"""Types of the arguments of `Session.run`, which its overloads have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from flowengine.core.run_options import RunOptions

if TYPE_CHECKING:
    from flowengine.graphs.tensor import Operation, Tensor
    from flowengine.runtime.run_metadata import RunMetadata

#: A tensor, a node, or the name of one.
OneFetch: TypeAlias = "str | Tensor | Operation"

#: {tensor, or its name: value}
FeedDict: TypeAlias = Mapping[Any, Any] | None

#: The keys of a dictionary of fetches, which are those of its values.
Key = TypeVar("Key")

#: What a list or dictionary of fetches has: tensors, names, structures.
Fetch = TypeVar("Fetch")


class RunArguments(TypedDict, total=False):
    """The arguments of `Session.run` behind fetches and feeds: see there."""

    targets: Sequence[Any]
    options: RunOptions | None
    run_metadata: RunMetadata | None


__all__ = ["FeedDict", "Fetch", "Key", "OneFetch", "RunArguments"]
