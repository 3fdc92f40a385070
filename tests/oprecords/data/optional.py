"""Optional values, and values of several components."""

from __future__ import annotations

from typing import Final

# Values that may not be there.

#: {why they have no record: ops}


# Several tensors that make one value, as one variant.

#: {why they have no record: ops}

EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    """,
    "a variant is what another op makes or reads: tests/kernels/test_composite_tensors.py": """
        CompositeTensorVariantFromComponents CompositeTensorVariantToComponents
    """,
}
