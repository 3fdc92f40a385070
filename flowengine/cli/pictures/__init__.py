"""Values that are pictures: boxes of detected objects, and images and segmentations as PNG files."""
