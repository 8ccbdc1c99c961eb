from __future__ import annotations

import os

import pytest

# Before gRPC is imported: with its fork handlers, one start in twenty of a process dies before
# its exec on Python 3.9, which still forks where later ones vfork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from tests.engines.applications import local_engine


@pytest.fixture
def engine(tmp_path):
    """The local engine, in a folder of its own."""
    with local_engine(tmp_path / "home") as engine:
        yield engine
