"""Whatever is edited in a package, it loads with findings, or compiles: nothing crashes."""

import contextlib
import random
import re
from pathlib import Path

import pytest

from tests.compiler.packages import options
from tests.package.packages import make_package
from tfapp.compiler.compile import compile_application
from tfapp.errors import TfappError
from tfapp.package.load import load_package

DOCUMENTS = ("metainfo.yaml", "appConfig-default.yaml", "resources-default.yaml")
FULL = Path(__file__).parents[1] / "compiler" / "golden" / "every-role" / "package"
EDITS = 30  # of one seed
WORDS = (
    *(
        "",
        "null",
        "true",
        "-1",
        "0",
        "1e400",
        ".nan",
        "[]",
        "{}",
        "[a, 1]",
        "{a: {b: 1}}",
        "'",
        '"',
    ),
    *("&a", "*a", "? x", "!!python/object:os.system {}", "\t", "\0", "\u2028", "é", "${", "${x}"),
    *("${worker.ALLOCATED_PORT}{DEFAULT_99999999}", "${site.global.user.data.dir}", "2 K", "max"),
    *("--shm-size 2g", "../x", "/", "x" * 200, "9" * 400, "worker", "env.A", "site.global.", ", ,"),
)
TOKEN = re.compile(r"[^\s:,\[\]{}]+|[\s:,\[\]{}]")


def edited(text: str, chance: random.Random) -> str:
    """`text` with one to three of its words, or lines, replaced, left out, doubled or moved."""
    for _ in range(chance.randint(1, 3)):
        parts = TOKEN.findall(text) if chance.random() < 0.8 else text.splitlines(keepends=True)
        if not parts:
            return chance.choice(WORDS)
        at = chance.randrange(len(parts))
        others = (chance.choice(WORDS), "", parts[at] * 2, chance.choice(parts))
        parts[at] = chance.choice(others)
        text = "".join(parts)
    return text


@pytest.mark.parametrize("seed", range(6))
def test_edited_packages_are_refused_or_compile(seed, tmp_path):
    chance = random.Random(seed)
    folder = make_package(tmp_path, over=FULL if seed % 2 else None)
    originals = {name: (folder / name).read_text() for name in DOCUMENTS}
    refused = 0
    for _ in range(EDITS):
        name = chance.choice(DOCUMENTS)
        for other, text in originals.items():
            changed = edited(text, chance) if other == name else text
            (folder / other).write_text(changed, "utf-8", errors="surrogateescape")
        loaded = load_package(folder)
        assert all(str(problem) and problem.code for problem in loaded.problems)
        refused += loaded.package is None
        if loaded.package is not None:
            with contextlib.suppress(TfappError):
                compile_application(loaded.package, options(maximum={"memory": 1, "vcores": 1}))
    assert 0 < refused < EDITS
