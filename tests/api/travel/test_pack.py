"""Modules of a user's own are found, shipped and named; what is installed is asked for."""

import functools
import importlib
import re
import sys
import types
import zipfile
from pathlib import Path

import pytest

from tests.api.travel.shipping import SUBMITS, call, own_names, run, submit, unpack
from tfapp.api.travel.pack import pack
from tfapp.errors import ProgramError
from tfapp.launch.environments import Needed
from tfapp.problems import Position
from tfapp.program.named import NamedFunction

FILES = {
    "wine.py": "import wine_data\nimport yaml\n\ndef train():\n    import cryptography\n"
    "    print(wine_data.rows())\n",
    "wine_data.py": "import wine_lib.parse\n\ndef rows():\n    return wine_lib.parse.text()\n",
    "wine_lib/__init__.py": "",
    "wine_lib/parse.py": "from . import texts\ntry:\n    import no_such_speedup\n"
    "except ImportError:\n    pass\n\n"
    "def unused():\n    import absent_but_unused\n\ndef text():\n    return texts.ONE\n",
    "wine_lib/texts.py": "ONE = 'one'\n",
    "wine_lib/data.csv": "1,2\n",
    "wine_lib/__pycache__/x.pyc": "",
    "wine_lib/.git/HEAD": "",
    "wine_lib/env/pyvenv.cfg": "",
    "wine_lib/env/lib/site-packages/big.py": "",
    "alone.py": "import sys\nprint('alone', sys.argv)\n",
    "wine_spaces/one.py": "import wine_spaces.two\nANSWER = 42\n",
    "wine_spaces/two.py": "",
    "wine_spaces/table.csv": "",
    "wine_main/__init__.py": "",
    "wine_main/__main__.py": "import wine_data\nprint(wine_data.rows(), __name__)\n",
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of the user's own modules, on the path."""
    folder = tmp_path / "own"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith(("wine", "alone"))]:
        del sys.modules[name]


WINE = {
    "wine.py",
    "wine_data.py",
    "wine_lib/__init__.py",
    "wine_lib/parse.py",
    "wine_lib/texts.py",
    "wine_lib/data.csv",
}
NEEDED = (
    Needed("yaml", Position("own/wine.py", 2, 1)),
    Needed("cryptography", Position("own/wine.py", 5, 5)),
    Needed("absent_but_unused", Position("own/wine_lib/parse.py", 8, 5), sure=False),
)


def by_name(needed):
    return sorted(needed, key=lambda one: one.module)


def test_own_modules_go_along_with_all_that_they_import(own, tmp_path):
    import wine

    packed = pack({"chief": wine.train, "worker": wine.train}, tmp_path)
    assert own_names(packed) == WINE
    assert packed.notes == ("ships wine.py, wine_data.py, wine_lib/, which train needs",)
    assert by_name(packed.needs.modules["chief"]) == by_name(NEEDED)
    assert packed.needs.python == dict.fromkeys(("chief", "worker"), sys.version_info[:2])
    assert packed.entries == {"chief": "tfapp-call/main.py", "worker": "tfapp-call/main.py"}
    assert [name for name in packed.files if name.endswith(".pkl")] == ["tfapp-call/chief.pkl"]
    assert call(packed)["components"]["worker"] == call(packed)["components"]["chief"]
    done = run(unpack(packed, tmp_path / "there"), "worker")
    assert (done.stdout, done.stderr) == ("one\n", "")


@pytest.mark.parametrize("program", ["wine:train", NamedFunction("wine", "train")])
def test_a_function_by_name_is_not_pickled(own, tmp_path, program):
    packed = pack({"chief": program}, tmp_path)
    assert own_names(packed) == WINE
    assert by_name(packed.needs.modules["chief"]) == by_name(NEEDED)
    assert packed.needs.python == {}
    assert not any(name.endswith(".pkl") or "cloudpickle" in name for name in packed.files)
    assert call(packed)["components"]["chief"]["kind"] == "function"
    assert "wine" not in sys.modules
    assert run(unpack(packed, tmp_path / "there")).stdout == "one\n"


def test_modules_and_a_script(own, tmp_path):
    programs = {"chief": "alone", "worker": own / "wine.py", "evaluator": "wine_main"}
    packed = pack(programs, tmp_path)
    assert packed.entries == {
        "chief": "tfapp-call/main.py",
        "worker": "wine.py",
        "evaluator": "tfapp-call/main.py",
    }
    assert own_names(packed) == {
        *WINE,
        "alone.py",
        "wine_main/__init__.py",
        "wine_main/__main__.py",
    }
    assert call(packed)["components"] == {
        "chief": {"kind": "module", "module": "alone"},
        "evaluator": {"kind": "module", "module": "wine_main"},
    }
    folder = unpack(packed, tmp_path / "there")
    assert run(folder).stdout.startswith("alone")
    assert run(folder, "evaluator").stdout == "one __main__\n"


def test_a_script_has_the_modules_of_its_own_folder(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"start_{name}.py").write_text("import settings_of\n")
        (tmp_path / name / "settings_of.py").write_text(f"import only_{name}\n")
    packed = pack({"chief": "a/start_a.py"}, tmp_path)
    assert own_names(packed) == {"start_a.py", "settings_of.py"}
    assert packed.needs.modules["chief"][0].at == Position("a/settings_of.py", 1, 1)
    with pytest.raises(ProgramError, match="would both be shipped as settings_of.py"):
        pack({"chief": "a/start_a.py", "worker": "b/start_b.py"}, tmp_path)


def test_modules_are_looked_for_in_the_working_folder_too(tmp_path):
    (tmp_path / "here_only.py").write_text("def train():\n    return 1\n")
    before = list(sys.path)
    assert "here_only.py" in pack({"chief": "here_only:train"}, tmp_path).files
    assert sys.path == before


def test_what_is_installed_is_neither_shipped_nor_loaded(tmp_path):
    (tmp_path / "heavy.py").write_text("import tensorflow.keras.layers\nimport wsgiref.types\n")
    packed = pack({"chief": "heavy.py", "worker": "yaml.nodes"}, tmp_path)
    assert own_names(packed) == {"heavy.py"}
    assert packed.needs.modules == {
        "chief": (
            Needed("tensorflow", Position("heavy.py", 1, 1)),
            Needed("tensorflow.keras.layers", Position("heavy.py", 1, 1), sure=False),
        ),
        "worker": (Needed("yaml", Position("yaml.nodes")),),
    }
    assert packed.notes == ()
    assert "tensorflow.keras.layers" not in sys.modules


def test_a_folder_without_init_goes_along_whole(own, tmp_path):
    (tmp_path / "uses.py").write_text("from wine_spaces import one\n")
    packed = pack({"chief": "uses.py"}, tmp_path)
    spaces = {"wine_spaces/one.py", "wine_spaces/two.py", "wine_spaces/table.csv"}
    assert own_names(packed) == {"uses.py"} | spaces
    assert packed.notes == ("ships wine_spaces/, which uses needs",)


def test_an_own_part_of_an_installed_namespace(tmp_path, monkeypatch):
    (tmp_path / "google" / "ours").mkdir(parents=True)
    (tmp_path / "google" / "ours" / "__init__.py").write_text("from google import protobuf\n")
    (tmp_path / "uses.py").write_text("import google.ours\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    packed = pack({"chief": "uses.py"}, tmp_path)
    assert own_names(packed) == {"uses.py", "google/ours/__init__.py"}
    (needed,) = packed.needs.modules["chief"]
    assert (needed.module, needed.at.file) == ("google.protobuf", "google/ours/__init__.py")


def test_an_editable_install_is_own(tmp_path, monkeypatch):
    """As setuptools makes it: a finder that knows where the package is."""
    (tmp_path / "src" / "code").mkdir(parents=True)
    (tmp_path / "src" / "code" / "__init__.py").write_text("from . import more\n")
    (tmp_path / "src" / "code" / "more.py").write_text("import no_such\n")

    class Finder:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name == "edited":
                return importlib.util.spec_from_file_location(
                    name, tmp_path / "src" / "code" / "__init__.py"
                )
            return None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    packed = pack({"chief": "edited.more"}, tmp_path)
    assert own_names(packed) == {"edited/__init__.py", "edited/more.py"}
    assert packed.needs.modules["chief"] == (Needed("no_such", Position("src/code/more.py", 1, 1)),)


def test_a_module_in_an_archive_is_said_and_asked_for(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "libs.zip", "w") as archive:
        archive.writestr("in_zip/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "libs.zip"))
    (tmp_path / "uses.py").write_text("import in_zip\n")
    packed = pack({"chief": "uses.py"}, tmp_path)
    assert packed.notes == ("does not ship in_zip, which is in the archive libs.zip",)
    assert packed.needs.modules["chief"] == (Needed("in_zip", Position("uses.py", 1, 1)),)


def test_a_module_without_a_file_is_pickled_itself(tmp_path, monkeypatch):
    module = types.ModuleType("by_hand")
    exec("LIMIT = 3\ndef limit():\n    return LIMIT\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "by_hand", module)
    names = {"__name__": "__main__", "by_hand": module, "limit": module.limit}
    exec("def train():\n    print(limit(), by_hand.LIMIT)\n", names)
    packed = pack({"chief": names["train"]}, tmp_path)
    assert own_names(packed) == set()
    assert packed.needs.modules["chief"] == ()
    done = run(unpack(packed, tmp_path / "there"))
    assert done.stdout == "3 3\n", done.stderr
    with pytest.raises(ProgramError, match="by_hand has no file"):
        pack({"chief": "by_hand:limit"}, tmp_path)


def test_a_package_that_cannot_be_shipped(own, tmp_path):
    (own / "wine_lib" / "elsewhere").symlink_to("/etc/hostname")
    with pytest.raises(ProgramError) as caught:
        pack({"chief": "wine:train"}, tmp_path)
    assert str(caught.value) == (
        "the package own/wine_lib cannot be shipped: elsewhere: this link leads out of the package"
    )


def test_a_package_that_is_too_large(own, tmp_path, monkeypatch):
    monkeypatch.setattr("tfapp.package.safety.MAX_FILES", 3)
    with pytest.raises(ProgramError, match="own/wine_lib cannot be shipped: there are more than 3"):
        pack({"chief": "wine:train"}, tmp_path)


MAIN = """
import base64
import sub.helper
import helper_of_main as helper
from dataclasses import dataclass

COUNT = [0]

@dataclass
class Row:
    value: int

    def shown(self):
        COUNT[0] += 1
        return f"{self.value} {COUNT[0]}"

def formatted(row):
    return row.shown()

def train():
    from sub import lazily
    print(formatted(Row(7)), helper.name(), sub.helper.name(), lazily.NAME)
"""
MAIN_FILES = {
    "helper_of_main.py": "def name():\n    return 'beside'\n",
    "sub/__init__.py": "",
    "sub/helper.py": "def name():\n    return 'below'\n",
    "sub/lazily.py": "import colorsys\nNAME = 'later'\n",
}


def test_a_script_that_submits_a_function_of_its_own(tmp_path):
    for name, text in {**MAIN_FILES, "start.py": MAIN + SUBMITS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    notes, needed = submit(["start.py"], tmp_path)
    assert (notes, needed) == (["ships helper_of_main.py, sub/, which train needs"], "")
    assert not (tmp_path / "there" / "start.py").exists()
    done = run(tmp_path / "there")
    assert done.stdout == "7 1 beside below later\n", done.stderr


FAILS = """
class Model:
    def fit(self, steps):
        return [
            step / 0
            for step in range(steps)
        ]

def helper():
    return Model().fit(3)

def train():
    def inner():
        return helper()
    inner()
"""


def test_a_traceback_has_the_file_and_the_source_of_the_caller(tmp_path):
    (tmp_path / "start.py").write_text(FAILS + SUBMITS)
    submit(["start.py"], tmp_path)
    (tmp_path / "start.py").unlink()
    told = run(tmp_path / "there").stderr
    assert "dynamic-code" not in told
    for line, name, text in [
        (15, "train", "inner()"),
        (14, "inner", "return helper()"),
        (10, "helper", "return Model().fit(3)"),
        (5, None, "step / 0"),
    ]:
        where = f'File "{tmp_path / "start.py"}", line {line}, in {name or ""}'
        assert re.search(rf"{re.escape(where)}.*\n +{re.escape(text)}", told), told
    assert told.rstrip().endswith("ZeroDivisionError: division by zero")


def test_a_module_that_submits_a_function_of_its_own(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    source = (
        "from . import near\n\ndef train():\n    from .far import NAME\n    print(near.ONE, NAME)\n"
    )
    for name, text in {
        "__init__.py": "",
        "near.py": "ONE = 1\n",
        "far.py": "NAME = 'far'\n",
        "start.py": source + SUBMITS,
    }.items():
        (package / name).write_text(text)
    notes, needed = submit(["-m", "pkg.start"], tmp_path)
    assert (notes, needed) == (["ships pkg/, which train needs"], "")
    done = run(tmp_path / "there")
    assert done.stdout == "1 far\n", done.stderr


def test_cells_of_a_notebook(tmp_path):
    """Run by IPython's own shell: what a kernel runs cells by."""
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    cells = [
        "import beside\nimport numpy as np\nweights = np.ones(3)",
        "def scaled(by):\n    return float((weights * by).sum())",
        "def train():\n    import no_such_module\n    return helper()\n\n"
        "def good():\n    print(scaled(2), beside.NAME)",
        "log = open('log.txt', 'w')\ndef bad():\n    print('a', file=log)",
        "def fails():\n    x = 1\n    return weights[7]",
    ]
    (tmp_path / "shell.py").write_text(
        "import sys; sys.path.insert(0, '')\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"for cell in {cells!r}: shell.run_cell(cell, store_history=True).raise_error()\n"
        "from tests.api.travel import shipping\n"
        "from pathlib import Path\n"
        "from tfapp.api.travel.pack import pack\n"
        "ns = shell.user_ns\n"
        "try: pack({'chief': ns['bad']}, Path.cwd())\n"
        "except Exception as error: refused = str(error)\n"
        "absent = [str(o.at) for o in pack({'chief': ns['train']}, Path.cwd())"
        ".needs.modules['chief'] if o.module == 'no_such_module']\n"
        "packed = pack({'chief': ns['good']}, Path.cwd())\n"
        "shipping.unpack(packed, Path('there'))\n"
        "failing = pack({'chief': ns['fails']}, Path.cwd())\n"
        "shipping.unpack(failing, Path('failing'))\n"
        "held = [o.module for o in packed.needs.modules['chief']]\n"
        "import json; print(json.dumps([[refused, absent, packed.notes], held]))\n"
    )
    (refused, absent, notes), held = submit(["shell.py"], tmp_path)
    assert refused == "bad (In[4]:2) captures `log`, an open file, at line 3"
    assert absent == ["In[3]:2:1"]
    assert notes == ["ships beside.py, which good needs"]
    assert held == "numpy"
    told = run(tmp_path / "failing").stderr
    assert '  File "In[5]", line 3, in fails\n    return weights[7]\n' in told
    done = run(tmp_path / "there")
    assert done.stdout == "6.0 beside\n", done.stderr


def test_all_of_tfapp_that_a_program_may_use_goes_along(tmp_path):
    packed = pack({"chief": lambda: None}, tmp_path, feed=True)
    tfapp = {name for name in packed.files if name.startswith("tfapp-call/tfapp/")}
    assert "tfapp-call/tfapp/program/main.py" in tfapp
    assert not any("api" in Path(name).parts or name.endswith(".pyc") for name in packed.files)
    folder = unpack(packed, tmp_path / "there")
    modules = [
        ".".join(Path(name).relative_to("tfapp-call").with_suffix("").parts) for name in tfapp
    ]
    # The entry runs at once.
    code = "\n".join(f"import {name}" for name in sorted(modules) if not name.endswith(".entry"))
    (folder / "tfapp-call" / "main.py").write_text(
        f"import sys; sys.path.insert(0, {str(folder / 'tfapp-call')!r})\n{code}\n"
        "import tfapp, cloudpickle; print(tfapp.__file__, cloudpickle.__file__)\n"
    )
    done = run(folder)
    assert done.stdout.split() == [
        str(folder / "tfapp-call" / name / "__init__.py") for name in ("tfapp", "cloudpickle")
    ], done.stderr


def test_programs_are_called_as_the_user_calls_them(own, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    local = functools.partial(test_programs_are_called_as_the_user_calls_them, None)
    given = {"script": script, "named": "wine:train", "pickled": local}
    line = test_programs_are_called_as_the_user_calls_them.__code__.co_firstlineno
    called = pack(given, tmp_path).called
    assert called["script"] == "train.py"
    assert called["named"] == "wine:train"
    assert called["pickled"] == (
        f"test_programs_are_called_as_the_user_calls_them (test_pack.py:{line})"
    )
