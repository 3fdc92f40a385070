"""Random tensors that are a function of a key and a counter."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormalV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle
        StatelessTruncatedNormalV2
    """,
}
