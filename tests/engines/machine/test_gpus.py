import contextlib
import os

import pytest

from tfapp.engines.machine.gpus import (
    GpuPool,
    check_enough,
    hold,
    parse_listing,
    take_free,
    visible_gpus,
)
from tfapp.errors import UnavailableError

WHOLE = "GPU 0: NVIDIA H200 (UUID: GPU-a)\nGPU 1: NVIDIA H200 (UUID: GPU-b)\n"
PARTITIONED = """\
GPU 0: NVIDIA A100 (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 3g.20gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA A100 (UUID: GPU-b)
"""


@pytest.mark.parametrize(
    ("listing", "ids"),
    [
        (WHOLE, ("GPU-a", "GPU-b")),
        (PARTITIONED, ("MIG-1", "MIG-2", "GPU-b")),
        ("", ()),
        ("No devices were found\n", ()),
    ],
)
def test_listing(listing, ids):
    assert parse_listing(listing) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0,1", ("0", "1")),
        (" 2 , GPU-a ", ("2", "GPU-a")),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles,-1,0", ("NoDevFiles",)),
        ("0,-1,1", ("0",)),
        ("0,0", ("0",)),
    ],
)
def test_the_submitters_choice(text, ids):
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": text}) == ids


class TestTool:
    def environ(self, tmp_path, script):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def test_is_asked(self, tmp_path):
        environ = self.environ(tmp_path, f"test \"$*\" = -L || exit 1\ncat <<'E'\n{WHOLE}E")
        assert visible_gpus(environ) == ("GPU-a", "GPU-b")

    def test_that_fails_means_none(self, tmp_path):
        environ = self.environ(tmp_path, f"cat <<'E'\n{WHOLE}E\nexit 9")
        assert visible_gpus(environ) == ()

    def test_that_is_missing_means_none(self, tmp_path):
        assert visible_gpus({"PATH": str(tmp_path)}) == ()


def test_enough():
    check_enough(2, ("a", "b"))
    with pytest.raises(UnavailableError, match="asks for 1 GPU and this machine has none"):
        check_enough(1, ())


def test_holding(tmp_path):
    ids = ("GPU-a", "GPU-b", "0/1")
    with contextlib.ExitStack() as mine, contextlib.ExitStack() as theirs:
        assert tuple(hold(tmp_path, ids, 2, mine)) == ("GPU-a", "GPU-b")
        with pytest.raises(UnavailableError, match="asks for 2 GPUs; of this machine's 3 only 1"):
            hold(tmp_path, ids, 2, theirs)
    with contextlib.ExitStack() as mine, contextlib.ExitStack() as theirs:
        assert tuple(hold(tmp_path, ids, 1, mine)) == ("GPU-a",)
        assert tuple(hold(tmp_path, ids, 2, theirs)) == ("GPU-b", "0/1")


def test_pool():
    pool = GpuPool("abc")
    assert pool.take(2) == ("a", "b")
    assert pool.take(2) is None
    assert pool.take(0) == ()
    pool.give_back(("a",))
    assert pool.take(2) == ("c", "a")


def test_a_pool_takes_what_others_give_back(tmp_path):
    ids = ("GPU-a", "GPU-b", "GPU-c")
    with contextlib.ExitStack() as mine, contextlib.ExitStack() as theirs:
        hold(tmp_path, ids, 1, theirs)
        taken = tuple(hold(tmp_path, ids, 1, mine, most=3))
        assert taken == ("GPU-b", "GPU-c"), "as many as are free"
        asked = []

        def more(number: int) -> tuple[str, ...]:
            asked.append(number)
            return tuple(take_free(tmp_path, ("GPU-a",), number, mine))

        pool = GpuPool(taken, more)
        assert pool.take(3) is None
        theirs.close()
        assert pool.take(3) == ("GPU-b", "GPU-c", "GPU-a")
        assert asked == [1, 1]
