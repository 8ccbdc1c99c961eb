import pytest

from tfapp.launch.submission import _lost_checkpoints
from tfapp.package.load import load_package
from tfapp.package.overrides import Overrides
from tfapp.shipped import app_packages_dir

SHARED = "after any restart all instances begin anew, with empty folders"
OWN = "after a restart in another container the training begins anew"


@pytest.mark.parametrize(
    ("counts", "meaning"),
    [
        ({"chief": 1, "worker": 0}, OWN),
        ({"chief": 0, "worker": 1}, OWN),
        ({"chief": 1, "worker": 0, "ps": 1, "evaluator": 1, "tensorboard": 1}, OWN),
        ({"chief": 1, "worker": 1}, SHARED),
        ({"chief": 0, "worker": 2}, SHARED),
    ],
)
def test_what_a_restart_means_is_said_before_the_start(counts, meaning):
    overrides = Overrides(components=tuple((name, str(count)) for name, count in counts.items()))
    package = load_package(app_packages_dir() / "tensorflow", overrides=overrides).package
    assert package is not None
    assert _lost_checkpoints(package) == (
        "what is saved in ${CHECKPOINT_DIR} is lost with its container, and no other instance sees "
        f"it: {meaning} (site.global.user.checkpoint.prefix is not set: it takes a URL, such as "
        "s3://bucket/folder, or a folder that all see)"
    )
