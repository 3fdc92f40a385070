"""The ops that the engine knows by name: what a plan cannot be made without.

Control flow is the state machine's own, Send and Recv are the partitioner's, calls are the runtime's: what
these do is no property that another op could have. This is the only file outside of the rooms where ops are
defined and computed that names an op to ask for it; everything else asks traits.
"""

from __future__ import annotations

from typing import Final

# Control flow of graphs. The second of each pair hands on a reference, not a value.
ENTER_OPS: Final = frozenset({"Enter", "RefEnter"})
EXIT_OPS: Final = frozenset({"Exit", "RefExit"})
NEXT_ITERATION_OPS: Final = frozenset({"NextIteration", "RefNextIteration"})
MERGE_OPS: Final = frozenset({"Merge", "RefMerge"})
SWITCH_OPS: Final = frozenset({"Switch", "RefSwitch"})
#: Where a token may be born, die or change its frame.
CONTROL_FLOW_OPS: Final = ENTER_OPS | EXIT_OPS | NEXT_ITERATION_OPS | MERGE_OPS | SWITCH_OPS
#: Those of them that carry references.
REFERENCE_CARRIERS: Final = frozenset({"RefEnter", "RefExit", "RefNextIteration", "RefMerge", "RefSwitch"})
#: Marks the condition of a loop.
LOOP_COND: Final = "LoopCond"
#: It waits for others, and runs although they were dead.
CONTROL_TRIGGER: Final = "ControlTrigger"

# Calls of functions.
CALL_OPS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
IF_OPS: Final = frozenset({"If", "StatelessIf"})
CASE_OPS: Final = frozenset({"Case", "StatelessCase"})
WHILE_OPS: Final = frozenset({"While", "StatelessWhile"})
FOR_OP: Final = "For"
#: They run a body again and again.
LOOPING_CALL_OPS: Final = WHILE_OPS | {FOR_OP}
#: It calls a function on another device, which an input names.
REMOTE_CALL: Final = "RemoteCall"
#: It calls the gradient of a function.
SYMBOLIC_GRADIENT: Final = "SymbolicGradient"
FUNCTION_CALL_OPS: Final = CALL_OPS | IF_OPS | CASE_OPS | LOOPING_CALL_OPS | {SYMBOLIC_GRADIENT}
#: What stands for an argument and a result in the body of a function.
ARGUMENT: Final = "_Arg"
RESULT: Final = "_Retval"

# What the engine makes.
SEND: Final = "_Send"
RECEIVE: Final = "_Recv"
#: TensorFlow writes the second of each pair where a device keeps the tensor in host memory.
SEND_OPS: Final = frozenset({SEND, "_HostSend"})
RECEIVE_OPS: Final = frozenset({RECEIVE, "_HostRecv"})
TRANSFER_OPS: Final = SEND_OPS | RECEIVE_OPS
#: What takes a tensor from one memory to another, for a device with memory of its own.
COPY_TO_HOST: Final = "_CopyToHost"
COPY_TO_DEVICE: Final = "_CopyToDevice"
COPY_OPS: Final = frozenset({COPY_TO_HOST, COPY_TO_DEVICE})
#: Many nodes as one.
REGION: Final = "_Region"
#: The same where they are only listed; no node of a graph.
#: What reads one shard of a saved dataset, where a dataset under way is written as a graph.
SHARD_READER: Final = "SnapshotDatasetReader"
#: What stands for a caller's fetch; no node of a graph.
FETCH: Final = "_Fetch"
