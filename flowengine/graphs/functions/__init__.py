"""The common functions: `fe.reduce_mean(x)`, `fe.matmul(a, b)`, `fe.nn.relu(x)`.

Names and arguments are TensorFlow 1's. For a tensor they take any value that `graphs.conversion` converts;
the graph is that of the first argument that is a tensor, or `graph` if a function has such an argument. All
of them raise InvalidArgumentError, which is a TypeError or a ValueError, for arguments that do not fit, and
name the line of the program that calls them.
"""
