import pytest

from tfapp.engines.kubernetes.preflight import _is_full

EXCEEDED = 'pods "a" is forbidden: exceeded quota: q, requested: {}, used: {}, limited: {}'


@pytest.mark.parametrize(
    ("requested", "used", "limited", "full"),
    [
        ("pods=1", "pods=3", "pods=3", True),
        ("pods=1", "pods=0", "pods=0", False),
        ("requests.memory=2Gi", "requests.memory=1Gi", "requests.memory=2048Mi", True),
        ("requests.cpu=2", "requests.cpu=0", "requests.cpu=1500m", False),
        ("pods=1,requests.cpu=100m", "pods=9,requests.cpu=1", "pods=9,requests.cpu=1", True),
        ("pods=1,requests.cpu=2", "pods=9,requests.cpu=1", "pods=9,requests.cpu=1", False),
    ],
)
def test_a_quota_that_is_full_is_waited_for_and_one_that_is_too_small_is_not(
    requested, used, limited, full
):
    assert _is_full(EXCEEDED.format(requested, used, limited)) is full


def test_other_refusals_are_no_quota():
    assert not _is_full('pods "a" is forbidden: violates PodSecurity "restricted:latest"')
