"""Amounts of memory become MiB as Skein would count them."""

from __future__ import annotations

import pytest
from skein.model import Resources

from tfapp.package.memory import mebibytes


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (1024, 1024),
        ("max", "max"),
        ("2 GiB", 2048),
        ("2GiB", 2048),
        ("2Gi", 2048),
        ("1.5 GiB", 1536),
        ("2 GB", 1908),
        ("2G", 1908),
        ("512 MiB", 512),
        ("1 KiB", 1),
        ("1025 KiB", 2),
        ("4 TiB", 4 * 1024**2),
    ],
)
def test_mebibytes(amount, expected):
    assert mebibytes(amount) == expected


@pytest.mark.parametrize("amount", ["", "much", "2 g", "-1 GiB", "2 PiB", "1. GiB", "2GiB\n"])
def test_no_amount(amount):
    with pytest.raises(ValueError, match="no amount of memory"):
        mebibytes(amount)


@pytest.mark.parametrize("amount", ["2 GiB", "2 GB", "2G", "1.5 GiB", "512 MiB", "3.3 GB"])
def test_skein_counts_the_same(amount):
    assert Resources(memory=amount, vcores=1).memory == mebibytes(amount)
