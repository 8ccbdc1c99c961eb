"""Amounts of memory, as resources write them."""

from __future__ import annotations

import re

from tfapp.package.model import MAX

_AMOUNT = re.compile(r"([0-9]+)(?:\.([0-9]+))? ?([KMGT])(i?)B?\Z")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def mebibytes(amount: int | str) -> int | str:
    """MiB, rounded up, or "max". A number is MiB already; "2 GiB" counts in 1024, "2 GB" and
    "2G" in 1000, as Skein reads them. ValueError for another text.

    >>> mebibytes("2 GiB"), mebibytes("2 GB")
    (2048, 1908)
    """
    if isinstance(amount, int) or amount == MAX:
        return amount
    match = _AMOUNT.match(amount)
    if match is None:
        raise ValueError(f"{amount!r} is no amount of memory such as 2048, '2 GiB' or 'max'")
    whole, fraction, unit, binary = match[1], match[2] or "", match[3], match[4]
    size = int(whole + fraction) * (1024 if binary else 1000) ** _POWERS[unit]
    return -(-size // (1024**2 * 10 ** len(fraction)))  # rounded up
