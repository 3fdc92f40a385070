"""The collections of a graph that variables, losses and steps are listed in, under TensorFlow's names.

A MetaGraphDef carries them under the same names.
"""

from __future__ import annotations

from typing import Final

#: Variables that a checkpoint holds.
VARIABLES: Final = "variables"
#: Those of them that an optimizer changes.
TRAINABLE_VARIABLES: Final = "trainable_variables"
#: Variables that no checkpoint holds, such as counts of epochs and the sums of a metric.
LOCAL_VARIABLES: Final = "local_variables"
#: Variables that a model needs when it is used: weights, and statistics of normalisation.
MODEL_VARIABLES: Final = "model_variables"
#: Variables that have a moving average.
MOVING_AVERAGE_VARIABLES: Final = "moving_average_variables"
#: Operations that fill tables, and that begin iterators.
TABLE_INITIALIZERS: Final = "table_initializer"
#: The count of steps.
GLOBAL_STEP: Final = "global_step"
#: Penalties of variables, to be added to a loss.
REGULARIZATION_LOSSES: Final = "regularization_losses"
#: Steps that change variables.
TRAIN_OP: Final = "train_op"
#: Updates that go with a step, such as those of moving statistics.
UPDATE_OPS: Final = "update_ops"
