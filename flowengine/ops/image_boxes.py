"""Images: boxes, crops and suppression of overlaps."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "CombinedNonMaxSuppression",
    inputs=[
        "boxes: float",
        "scores: float",
        "max_output_size_per_class: int32",
        "max_total_size: int32",
        "iou_threshold: float",
        "score_threshold: float",
    ],
    outputs=["nmsed_boxes: float", "nmsed_scores: float", "nmsed_classes: float", "valid_detections: int32"],
    attrs=["pad_per_class: bool = false", "clip_boxes: bool = true"],
)
define(
    "CropAndResize",
    inputs=["image: T", "boxes: float", "box_ind: int32", "crop_size: int32"],
    outputs=["crops: float"],
    attrs=[
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear', 'nearest'} = \"bilinear\"",
        "extrapolation_value: float = 0.0",
    ],
)
define(
    "CropAndResizeGradBoxes",
    inputs=["grads: float", "image: T", "boxes: float", "box_ind: int32"],
    outputs=["output: float"],
    attrs=[
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear'} = \"bilinear\"",
    ],
)
define(
    "CropAndResizeGradImage",
    inputs=["grads: float", "boxes: float", "box_ind: int32", "image_size: int32"],
    outputs=["output: T"],
    attrs=["T: {float, half, double}", "method: {'bilinear', 'nearest'} = \"bilinear\""],
)
define(
    "DrawBoundingBoxes",
    inputs=["images: T", "boxes: float"],
    outputs=["output: T"],
    attrs=["T: {float, half} = float"],
)
define(
    "DrawBoundingBoxesV2",
    inputs=["images: T", "boxes: float", "colors: float"],
    outputs=["output: T"],
    attrs=["T: {float, half} = float"],
)
define(
    "ExtractGlimpse",
    inputs=["input: float", "size: int32", "offsets: float"],
    outputs=["glimpse: float"],
    attrs=[
        "centered: bool = true",
        "normalized: bool = true",
        "uniform_noise: bool = true",
        'noise: string = "uniform"',
    ],
)
define(
    "NonMaxSuppression",
    inputs=["boxes: float", "scores: float", "max_output_size: int32"],
    outputs=["selected_indices: int32"],
    attrs=["iou_threshold: float = 0.5"],
)
define(
    "NonMaxSuppressionV2",
    inputs=["boxes: T", "scores: T", "max_output_size: int32", "iou_threshold: T_threshold"],
    outputs=["selected_indices: int32"],
    attrs=["T: {half, float} = float", "T_threshold: {half, float} = float"],
)
define(
    "NonMaxSuppressionV3",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ],
    outputs=["selected_indices: int32"],
    attrs=["T: {half, float} = float", "T_threshold: {half, float} = float"],
)
define(
    "NonMaxSuppressionV4",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ],
    outputs=["selected_indices: int32", "valid_outputs: int32"],
    attrs=[
        "T: {half, float} = float",
        "T_threshold: {half, float} = float",
        "pad_to_max_output_size: bool = false",
    ],
)
define(
    "NonMaxSuppressionV5",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T",
        "score_threshold: T",
        "soft_nms_sigma: T",
    ],
    outputs=["selected_indices: int32", "selected_scores: T", "valid_outputs: int32"],
    attrs=["T: {half, float} = float", "pad_to_max_output_size: bool = false"],
)
define(
    "NonMaxSuppressionWithOverlaps",
    inputs=[
        "overlaps: float",
        "scores: float",
        "max_output_size: int32",
        "overlap_threshold: float",
        "score_threshold: float",
    ],
    outputs=["selected_indices: int32"],
)
define(
    "RandomCrop",
    inputs=["image: T", "size: int64"],
    outputs=["output: T"],
    attrs=["T: {uint8, int8, int16, int32, int64, float, double}", "seed: int = 0", "seed2: int = 0"],
    is_stateful=True,
)
define(
    "SampleDistortedBoundingBox",
    inputs=["image_size: T", "bounding_boxes: float"],
    outputs=["begin: T", "size: T", "bboxes: float"],
    attrs=[
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "min_object_covered: float = 0.1",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ],
    is_stateful=True,
)
define(
    "SampleDistortedBoundingBoxV2",
    inputs=["image_size: T", "bounding_boxes: float", "min_object_covered: float"],
    outputs=["begin: T", "size: T", "bboxes: float"],
    attrs=[
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ],
    is_stateful=True,
)
