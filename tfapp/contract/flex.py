"""A client's request for another number of instances, and the coordinator's reply."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known


@dataclasses.dataclass(frozen=True)
class FlexRequest:
    """`count` is "3" for so many instances, "+1" or "-1" for so many more or fewer."""

    id: str
    component: str
    count: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexRequest:
        return cls(**known(cls, data))


@dataclasses.dataclass(frozen=True)
class FlexReply:
    """Whether the coordinator does what a request asked for, in one sentence."""

    accepted: bool
    text: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexReply:
        return cls(**known(cls, data))
