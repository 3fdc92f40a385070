"""The common functions: `fe.reduce_mean(x)`, `fe.matmul(a, b)`, `fe.nn.relu(x)`.

Names and arguments are TensorFlow 1's. Where a tensor is taken, whatever `graphs.conversion` takes will do;
the graph is that of the first argument that is a tensor, or `graph` where a function has such an argument.
All of them raise InvalidArgumentError, which is a TypeError or a ValueError, for arguments that do not fit,
and name the line of the program that gave them.
"""
