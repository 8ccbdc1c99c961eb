"""Packages that several test processes need at the same time are fetched once."""

import pytest

from tests import debian


def test_one_waits_for_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "BUILD_LIMIT", 0.2)
    cache = tmp_path / "cache"
    refused = pytest.raises(debian.UnavailableError, match="another process has")
    with debian.alone(cache), refused, debian.alone(cache):
        pass
    with debian.alone(cache):
        pass
