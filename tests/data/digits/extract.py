"""Write digits.npz and digit.png from the copy of the UCI digits that scikit-learn ships.

Run with a Python that has scikit-learn and Pillow; the results are committed. Of each hundred digits, in
the order of the collection, the last twenty are held out: they are digits that training never sees, by hands
that it does. (By hands that it has not seen the demo's small network gets about 94% right.)
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
#: Which of the held-out digits becomes the picture.
SHOWN = 47

if __name__ == "__main__":
    digits = load_digits()
    images = digits.images.astype(np.uint8)[..., np.newaxis]  # (1797, 8, 8, 1), 0 to 16
    labels = digits.target.astype(np.uint8)
    held_out = np.arange(len(images)) % 100 >= 80
    np.savez_compressed(
        HERE / "digits.npz",
        train_images=images[~held_out],
        train_labels=labels[~held_out],
        test_images=images[held_out],
        test_labels=labels[held_out],
    )
    # One held-out digit as a picture that a viewer can show: 16 shades become 0 to 240.
    Image.fromarray(images[held_out][SHOWN, :, :, 0] * 15).save(HERE / "digit.png")
