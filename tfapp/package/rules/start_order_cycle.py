"""Components whose commandOrders wait for each other: none of them could ever start.

worker-START requires ps-STARTED                                        PASS
worker-START requires ps-STARTED, ps-START requires worker-STARTED      FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import Problem

CODE = "start-order-cycle"
NEEDS = ("metainfo",)


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports each ring once, at the order with which its first component begins."""
    requires: dict[str, list[str]] = {}
    for order in package.command_orders:
        requires.setdefault(order.component, []).extend(order.requires)
    reported: set[frozenset[str]] = set()
    for order in package.command_orders:
        ring = _ring(requires, order.component, order.requires)
        if ring and frozenset(ring) not in reported:
            reported.add(frozenset(ring))
            yield Problem(
                order.at,
                CODE,
                f"these wait for each other to start: {' -> '.join((*ring, ring[0]))}",
                hint="remove one of these commandOrders",
            )


def _ring(
    requires: dict[str, list[str]], start: str, first: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The shortest way from `start` over `first` back to `start`."""
    ways: list[tuple[str, ...]] = [(start, name) for name in first]
    seen: set[str] = set()
    for way in ways:
        last = way[-1]
        if last == start:
            return way[:-1]
        if last not in seen:
            seen.add(last)
            ways.extend((*way, name) for name in requires.get(last, ()))
    return None
