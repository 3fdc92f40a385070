"""From a pruned graph to its values: plan, state machine, executor, step."""
