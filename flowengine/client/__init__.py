"""Parts of programs that train: losses, metrics, layers, recurrent nets, embeddings.

All are functions of an explicit graph: they add nodes to the graph of their first tensor, keep no state of
their own and need no session.
"""
