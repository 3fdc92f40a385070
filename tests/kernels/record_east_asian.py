"""Record how TensorFlow 1.15 decodes drawn bytes in East Asian encodings: python record_east_asian.py."""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("east_asian.json")
ENCODINGS = ("Shift_JIS", "EUC-JP", "EUC-KR", "GBK", "GB18030", "Big5", "GB2312", "ISO-2022-JP")
SEQUENCES = 60
#: Bytes at the ends of the ranges that the encodings have.
EDGES = (0x30, 0x39, 0x41, 0x5C, 0x7E, 0x81, 0x8E, 0x8F, 0xA1, 0xB0, 0xC0, 0xFE, 0xFF)


def main() -> None:
    import numpy as np
    import tensorflow as tf

    v1: Any = tf.compat.v1
    random = np.random.RandomState(3)
    texts = v1.placeholder(tf.string, [None])
    found = {}
    with v1.Session() as session:
        for encoding in ENCODINGS:
            drawn = [
                bytes(bytearray(random.choice(each, random.randint(1, 9)).tolist()))
                for _ in range(SEQUENCES // 3)
                for each in (range(256), range(0x80, 0x100), EDGES)
            ]
            codes, offsets = tf.strings.unicode_decode_with_offsets(texts, encoding)
            fetches = [codes.flat_values, offsets.flat_values, codes.row_splits]
            flat, places, splits = (each.tolist() for each in session.run(fetches, {texts: drawn}))
            found[encoding] = [
                [data.hex(), flat[splits[row] : splits[row + 1]], places[splits[row] : splits[row + 1]]]
                for row, data in enumerate(drawn)
            ]
    lines = [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
