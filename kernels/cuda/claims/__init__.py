"""The claims of CUDA on several nodes: epilogues of convolutions, elementwise chains, and updates."""

from __future__ import annotations

from typing import Final

from flowengine.kernels.common.launched_chains import launch_claim
from flowengine.kernels.cuda.card_kernels import card_kernels
from flowengine.kernels.cuda.chains import CardChains
from flowengine.kernels.cuda.claims.epilogues import join_epilogues
from flowengine.kernels.cuda.claims.updates import gather_card_updates
from flowengine.kernels.cuda.overrides.convolutions import left_out
from flowengine.kernels.cuda.serving import PROVIDER_NAME
from flowengine.kernels.provider import Claim, Provider

PROVIDER: Final = Provider(
    PROVIDER_NAME,
    (
        Claim("join_epilogues", join_epilogues, keeps_bits=False, option="fuse_contractions"),
        Claim("gather_updates", gather_card_updates, keeps_bits=True, option="fuse_contractions"),
        launch_claim(CardChains()),
    ),
    kernels=card_kernels,
    left_out=left_out,
)

__all__ = ["PROVIDER"]
