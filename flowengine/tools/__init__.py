"""Tools that look at steps: files for TensorBoard, and comparisons."""
