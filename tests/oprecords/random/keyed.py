"""Random tensors that are a function of a key and a counter, given or kept by a generator."""

from __future__ import annotations

from typing import Final

# Random tensors that are a function of a key and a counter.

#: {why they have no record: ops}


# Random numbers from a generator whose state is a variable.

#: {why they have no record: ops}

EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormalV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle
        StatelessTruncatedNormalV2 NonDeterministicInts RngReadAndSkip RngSkip
        StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
        StatefulUniformFullInt StatefulUniformInt
    """,
}
