"""Every record of numbers on arrays as strict as CuPy's: the CPU's values, and nobody looked at one.

What an op must refuse is refused there too: by its shapes at once, by its values when somebody looks at the
checks that its kernel has made.
"""

from __future__ import annotations

from typing import Final

import pytest

import flowengine as fe
from flowengine.graphs.errors import ConstructionError
from tests.oprecords.found import RECORDS
from tests.oprecords.record import BadSample, OpRecord
from tests.oprecords.strict import StrictRun, findings, held_types, is_of_numbers

#: {why an op cannot: ops}. Exact: an op that runs on a device is taken off.
NOT_ON_A_DEVICE: Final = {
    "numbers are drawn until enough of them are accepted; TensorFlow has no kernel for GPUs": """
        StatelessParameterizedTruncatedNormal SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
        StatelessSampleDistortedBoundingBox
    """,
    "through LAPACK; TensorFlow has no kernel for GPUs, or CuPy nothing to compute it with": """
        BandedTriangularSolve BatchMatrixSolveLs Eig MatrixExponential MatrixLogarithm MatrixSolveLs
        MatrixSquareRoot
    """,
    "how large the result is depends on values, which TensorFlow's own kernel for GPUs waits for too": """
        DynamicPartition RaggedFillEmptyRows
        SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum SparseSegmentMean SparseSegmentMeanGradV2
        SparseSegmentSqrtN SparseSegmentSqrtNGradV2 SparseSegmentSum SparseSegmentSumGradV2
        SparseFillEmptyRows SparseSlice SparseSliceGrad SparseSplit
        NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
        Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where
    """,
    "TensorFlow has no kernel for GPUs either": """
        BoostedTreesAggregateStats BoostedTreesBucketize BoostedTreesMakeStatsSummary
        BoostedTreesCalculateBestGainsPerFeature BoostedTreesMakeQuantileSummaries
        BoostedTreesSparseAggregateStats
        AllCandidateSampler AudioSpectrogram CTCBeamSearchDecoder CTCGreedyDecoder
        ComputeAccidentalHits FixedUnigramCandidateSampler KMC2ChainInitialization
        KmeansPlusPlusInitialization LearnedUnigramCandidateSampler ListDiff
        IsotonicRegression LogUniformCandidateSampler Mfcc NonMaxSuppression
        ImageConnectedComponents Addons>ImageConnectedComponents
        NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps CombinedNonMaxSuppression
        RandomCrop QuantizeDownAndShrinkRange QuantizedAdd
        QuantizedBatchNormWithGlobalNormalization QuantizedInstanceNorm RandomShuffle
        RequantizationRange RequantizationRangePerChannel SdcaOptimizer SdcaOptimizerV2
        ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler
    """,
    "it gives a number or a few, in host memory": "SobolSample ToBool",
    "TensorFlow has no kernel for GPUs either: texts and images": """
        DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpse ExtractGlimpseV2
        UnicodeScript
    """,
    "the entries of a sparse tensor are looked at; TensorFlow has kernels for CPUs only": """
        DenseCountSparseOutput DenseToDenseSetOperation DenseToSparseSetOperation EditDistance
        RaggedBincount RaggedCountSparseOutput SetSize SparseAdd SparseAddGrad SparseBincount
        SparseCrossHashed SparseCountSparseOutput SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul
        SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseSoftmax
        SparseSparseMaximum SparseSparseMinimum SparseToSparseSetOperation
    """,
    "how long the rows of a ragged tensor are has to be seen; TensorFlow has no kernel for GPUs either": """
        RaggedGather RaggedRange RaggedTensorToSparse RaggedTensorToTensor
    """,
}
EXCUSED: Final = frozenset(op for ops in NOT_ON_A_DEVICE.values() for op in ops.split())
OF_NUMBERS: Final = [record for record in RECORDS if is_of_numbers(record)]
_BAD: Final = [
    (record, each)
    for record in OF_NUMBERS
    if record.op not in EXCUSED
    for each in record.bad
    if any(held_types(record))
]
#: So many of the ops of numbers have to run on a device.
_ENOUGH: Final = 260


@pytest.mark.parametrize("record", OF_NUMBERS, ids=lambda record: record.op)
def test_has_the_values_of_the_cpu_and_nobody_looks(record: OpRecord) -> None:
    found = findings(record)
    if record.op in EXCUSED:
        assert found, "it runs on a device now: take it off NOT_ON_A_DEVICE"
    else:
        assert found == []


@pytest.mark.parametrize(("record", "each"), _BAD, ids=[f"{r.op}-{i}" for i, (r, _) in enumerate(_BAD)])
def test_refuses_on_a_device_what_it_refuses_on_a_cpu(record: OpRecord, each: BadSample) -> None:
    told = []
    for form in ("known", "unknown"):
        with pytest.raises(getattr(fe.errors, each.error)) as caught:
            StrictRun(record, each, next(held_types(record)), form=form)
        told.append(str(caught.value))
        if each.message in told[-1]:
            return
        # Shapes told it before the kernel could: without them that has to.
        assert isinstance(caught.value, ConstructionError), told
    raise AssertionError(told)


def test_the_list_is_exact_and_short() -> None:
    ops = [op for listed in NOT_ON_A_DEVICE.values() for op in listed.split()]
    assert len(ops) == len(set(ops))
    assert set(ops) <= {record.op for record in OF_NUMBERS}
    assert len(OF_NUMBERS) - len(ops) >= _ENOUGH
