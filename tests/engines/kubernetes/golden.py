"""The packages in golden/: each is laid over tests/compiler/golden/minimal."""

import re
import shutil
from pathlib import Path

from tests.compiler.packages import options
from tfapp import __version__
from tfapp.compiler.compile import compile_application
from tfapp.engines.kubernetes.pods import Places
from tfapp.package.load import load_package

MINIMAL = Path(__file__).parents[2] / "compiler" / "golden" / "minimal" / "package"
GOLDEN = Path(__file__).with_name("golden")
CASES = sorted(folder.name for folder in GOLDEN.iterdir())
OPTIONS = options(tags=("attempt-7",), queue="research", secrets={"LOGIN": "secret words"})


def compiled_case(case, folder: Path, namespace="ml"):
    """(what is compiled, its places) of a case, whose package is put into `folder`."""
    shutil.copytree(MINIMAL, folder, dirs_exist_ok=True)
    shutil.copytree(GOLDEN / case / "package", folder, dirs_exist_ok=True)
    loaded = load_package(folder)
    assert loaded.package is not None, "\n".join(map(str, loaded.problems))
    return compile_application(loaded.package, OPTIONS), Places.of(OPTIONS, namespace)


def without_hashes(text: str) -> str:
    """Without those of files, which change with each default of a schema, without the definition,
    which tests/compiler compares, and without tfapp's version."""
    text = text.replace(f"version: {__version__}", "version: VERSION")
    text = re.sub(r"(?m)^  definition: .*$", "  definition: '{}'", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
