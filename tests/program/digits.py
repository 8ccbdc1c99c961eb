"""The experiments on the handwritten digits, with their data, in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

EXPERIMENTS = Path(__file__).parent / "experiments" / "digits.py"
TEST_IMAGES = 360


def write_digits(folder: Path) -> None:
    """Writes digits.py and digits.npz, which every NumPy can read."""
    import numpy
    from sklearn.datasets import load_digits

    found = load_digits()
    order = numpy.random.default_rng(seed=0).permutation(len(found.data))
    images = (found.data[order] / 16).astype("float32")
    labels = found.target[order].astype("int64")
    numpy.savez(
        folder / "digits.npz",
        train_x=images[TEST_IMAGES:],
        train_y=labels[TEST_IMAGES:],
        test_x=images[:TEST_IMAGES],
        test_y=labels[:TEST_IMAGES],
    )
    shutil.copy(EXPERIMENTS, folder)
