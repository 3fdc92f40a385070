"""Decision forests: trees, ensembles of them that grow by boosting, and sketches of the values to split at.

`messages`      trees as bytes, in the form of TensorFlow's protocol buffers
`paths`         trees as arrays, by which many examples find their leaves at once
`ensemble`      boosted trees: an ensemble that grows layer by layer
`quantiles`     streams of weighted values that remember their quantiles
`tree`          a single tree, of a random forest
"""
