"""Datasets and their iterators: input pipelines as resources, made by the ops of `kernels/data/`."""
