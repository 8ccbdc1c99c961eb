from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable
from types import ModuleType

import pytest

_numbers = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch) -> Callable[[str], ModuleType]:
    """Makes a module of a user's own out of its source."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def make(source: str) -> ModuleType:
        name = f"own_program_{next(_numbers)}"
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in [name for name in sys.modules if name.startswith("own_program_")]:
        del sys.modules[name]
