"""Accumulators of gradients."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep
        AccumulatorTakeGradient ConditionalAccumulator ResourceAccumulatorApplyGradient
        ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep
        ResourceAccumulatorTakeGradient ResourceConditionalAccumulator
        SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator
    """,
}
