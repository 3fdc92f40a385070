"""Graph -> Graph: one small file a pass, in the order that `pipeline` gives."""
