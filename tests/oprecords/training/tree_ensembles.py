"""Boosted trees: ensembles."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their input is an object, not a tensor: tests/resources": """
        BoostedTreesCenterBias BoostedTreesCreateEnsemble BoostedTreesDeserializeEnsemble
        BoostedTreesEnsembleResourceHandleOp BoostedTreesExampleDebugOutputs BoostedTreesGetEnsembleStates
        BoostedTreesPredict BoostedTreesSerializeEnsemble BoostedTreesTrainingPredict
        BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2 IsBoostedTreesEnsembleInitialized
    """,
}
