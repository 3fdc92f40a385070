"""Datasets on disk, in the form of TensorFlow's `tf.data.Dataset.save`."""
