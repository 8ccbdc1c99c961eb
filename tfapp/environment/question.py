"""What an interpreter can import, and what it says to a program's source. Nothing of the program,
and no package, is run. Also a program, for other interpreters: the question comes as JSON on
standard input, the answer goes to standard output. Python 3.6 understands it."""

import ast
import base64
import importlib.machinery
import importlib.util
import json
import sys


def answer(asked, path=None):
    """`asked` has `modules` and the program's `source` in base64. The answer: `version`, which
    modules are `lacking`, the error of `syntax` (line, column, text) or None, and the imports at
    the top level that are `missing` (line, column, module). `path`: where the program's imports
    are looked for, by default sys.path."""
    imports, syntax = [], None
    try:
        tree = ast.parse(base64.b64decode(asked["source"]), "source")
    except SyntaxError as error:
        syntax = [error.lineno or 0, error.offset or 0, error.msg]
    except ValueError as error:
        syntax = [0, 0, str(error)]
    else:
        for node in tree.body:
            imports += [[node.lineno, node.col_offset + 1, name] for name in _imported(node)]
    return {
        "version": list(sys.version_info[:3]),
        "lacking": [module for module in asked["modules"] if _is_missing(module)],
        "syntax": syntax,
        "missing": [found for found in imports if not _is_found(found[2], path)],
    }


def _imported(node):
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []


def _is_found(module, path):
    for finder in sys.meta_path:
        here = path if finder is importlib.machinery.PathFinder else None
        if hasattr(finder, "find_spec") and finder.find_spec(module, here) is not None:
            return True
    return module == "__main__"


def _is_missing(module):
    try:
        return importlib.util.find_spec(module) is None
    except ImportError:  # the package around it
        return True
    except ValueError:  # it is loaded, without a spec
        return False


if __name__ == "__main__":
    del sys.path[0]
    print(json.dumps(answer(json.load(sys.stdin))))
