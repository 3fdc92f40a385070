"""Kernels that oneDNN computes, called through its C interface.

`library` finds and loads it, `objects` are its descriptors and memories, `program` runs primitives, and the
other modules register kernels: each takes the calls that it was measured to be faster at, and hands every
other call on to the NumPy kernel of the node. Nothing here is imported before a graph needs one of their
ops, and the library itself is loaded at the first call that is large enough for it.
"""
