"""Queues and barriers."""

from __future__ import annotations

from typing import Final

# Queues, by reference and by resource handle.

#: {why they have no record: ops}


# Barriers: tuples that become ready key by key.

#: {why they have no record: ops}

EXCUSED: Final = {
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2
        QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo
        QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2
        QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue
        RandomShuffleQueueV2 Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany
        BarrierReadySize BarrierTakeMany
    """,
}
