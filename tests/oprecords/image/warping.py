"""Images read at places that lie between pixels, and the parts of an image that hang together.

The values of `told` were recorded from TensorFlow 1.15.5's contrib packages.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, grid, sample, told

_INVALID: Final = "InvalidArgumentError"
_UNIMPLEMENTED: Final = "UnimplementedError"

_DATA: Final = np.arange(24.0).reshape(1, 3, 4, 2) % 7
_PLACES: Final = [[[-0.5, 0.25], [3.5, 1.25], [-1, 0], [4, 0], [1, 2.5], [0, -0.75], [1.5, 0.5]]]
_GRAD: Final = np.arange(14.0).reshape(1, 7, 2) / 8


def _weights(data: Any, warp: Any) -> Any:
    """(image, place, row, column): how much of each pixel is in the value at a place."""
    _, height, width, _ = data.shape
    x, y = warp[..., 0].astype(np.float64), warp[..., 1].astype(np.float64)
    across = np.maximum(0, 1 - np.abs(x[..., None] - np.arange(width)))
    down = np.maximum(0, 1 - np.abs(y[..., None] - np.arange(height)))
    return down[..., None] * across[..., None, :]


def _resampled(data: Any, warp: Any) -> Any:
    flat = warp.reshape(len(warp), -1, 2)
    values = np.einsum("npyx,nyxc->npc", _weights(data, flat), data)
    return values.reshape(*warp.shape[:-1], data.shape[-1])


_IMAGES: Final = grid(
    (2, 7, 5),
    "2 0 0 1 0  1 2 2 0 1  1 1 1 2 2  2 0 2 1 0",
    "1 2 0 0 2  0 0 0 0 0  0 2 0 2 1  1 1 0 1 1",
    "1 0 1 2 0  1 2 0 2 0  1 2 2 1 0  1 1 0 2 2",
    "2 2 1 2 2  2 2 2 0 1",
)
_PARTS: Final = grid(
    (2, 7, 5),
    "1 0 0 4 0  6 8 8 0 10  6 6 6 15 15  16 0 18 19 0",
    "21 22 0 0 25  0 0 0 0 0  0 32 0 34 35  57 57 0 40 40",
    "57 0 43 49 0  57 53 0 49 0  57 53 53 54 0  57 57 0 65 65",
    "68 68 63 65 65  68 68 68 0 70",
)
_PICTURES: Final = np.arange(24.0).reshape(2, 3, 4, 1)
_TRANSFORM: Final = [[1, 0.25, 0.5, 0.125, 1, -0.5, 0, 0.0625]]
_NEAREST: Final = np.array([0, 2, 3, 0, 1, 6, 7, 0, 5, 6, 11, 0, 0, 14, 15, 0, 13, 18, 19, 0, 17, 18, 23, 0])
_BILINEAR: Final = np.array(
    [
        *[0.25, 0.9375, 1.875, 1.3125, 2.588235378265381, 4.0, 5.411765098571777, 2.961937665939331],
        *[6.222222805023193, 7.555555820465088, 8.888888359068824, 4.296296119689941, 6.25, 8.4375],
        *[10.875, 6.5625, 14.588235855102539, 16.0, 17.41176414489746, 8.60899543762207],
        *[18.22222137451172, 19.55555534362793, 20.88888931274414, 9.62962818145752],
    ]
)
_BY_DATA: Final = np.array(
    [
        *[0.3125, 0.390625, 0.375, 0.40625, 0.375, 0.40625, 0, 0, 0, 0.015625, 0.375, 0.40625],
        *[0.375, 0.40625, 0.09375, 0.140625, 0, 0, 0.5, 0.5625, 0, 0, 0.03125, 0.046875],
    ]
).reshape(1, 3, 4, 2)
_BY_PLACES: Final = [
    [[0.15625, 0.0625], [-0.53125, 0.3125], [0, 0], [0, 0], [-1.8125, -9.625], [1.3125, 1.375], [6.25, 3.125]]
]
_FLOATS: Final = {"T": ["float32", "float64"]}

RECORDS: Final = [
    *(
        OpRecord(
            op,
            [
                sample(_DATA, _PLACES),
                sample(_DATA, [[[[0.5, 0.5]], [[2.0, 1.0]]]]),
                sample(_DATA, np.zeros((1, 0, 2))),
            ],
            _resampled,
            [
                bad(_UNIMPLEMENTED, "[3,4,2]", _DATA[0], _PLACES),
                bad(_INVALID, "", _DATA, [1.0, 2.0]),
                bad(_UNIMPLEMENTED, "2D", _DATA, [[[1.0]]]),
                bad(_INVALID, "Batch size", _DATA, [[[1.0, 1.0]]] * 2),
            ],
            dtypes={"T": ["float32", "float64", "float16"]},
            loose=3,
        )
        for op in ("Resampler", "Addons>Resampler")
    ),
    *(
        OpRecord(
            op,
            [told([_DATA, _PLACES, _GRAD], [_BY_DATA, _BY_PLACES], {})],
            None,
            [bad(_INVALID, "grad_output", _DATA, _PLACES, _GRAD[:, :3])],
            dtypes=_FLOATS,
        )
        for op in ("ResamplerGrad", "Addons>ResamplerGrad")
    ),
    OpRecord(
        "ImageProjectiveTransform",
        [
            told(
                [_PICTURES, _TRANSFORM],
                [_NEAREST.reshape(_PICTURES.shape)],
                {"interpolation": "NEAREST"},
            ),
            told(
                [_PICTURES, _TRANSFORM],
                [_BILINEAR.reshape(_PICTURES.shape)],
                {"interpolation": "BILINEAR"},
            ),
            told([_PICTURES[:0], _TRANSFORM], [_PICTURES[:0]], {"interpolation": "NEAREST"}),
        ],
        None,
        [
            bad(_INVALID, "CUBIC", _PICTURES, _TRANSFORM, interpolation="CUBIC"),
            bad(_INVALID, "8", _PICTURES, [[1.0]], interpolation="NEAREST"),
        ],
        dtypes={"dtype": ["float32"]},
        loose=3,
    ),
    *(
        OpRecord(
            op,
            [told([_IMAGES], [_PARTS], {}), told([np.zeros((1, 0, 3))], [np.zeros((1, 0, 3), int)], {})],
            None,
            [bad(_INVALID, "", [[1, 0]])],
            dtypes={"dtype": ["int32", "uint8", "float32"]},
        )
        for op in ("ImageConnectedComponents", "Addons>ImageConnectedComponents")
    ),
]
