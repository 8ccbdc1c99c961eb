"""Determines which modules an interpreter can import and whether it can parse a program, without
running anything of it. Also a program for other interpreters, from Python 3.6 on: the question is
JSON on standard input, the answer JSON on standard output."""

import ast
import base64
import importlib.machinery
import importlib.util
import json
import sys


def answer(asked, path=None):
    """`asked` has `modules`, and the `source` of a program in base64. The answer has `version`, the
    `lacking` modules, and a `syntax` error (line, column, text) or None. `path`: the search path of
    modules; default: sys.path."""
    syntax = None
    try:
        ast.parse(base64.b64decode(asked["source"]), "source")
    except SyntaxError as error:
        syntax = [error.lineno or 0, error.offset or 0, error.msg]
    except ValueError as error:
        syntax = [0, 0, str(error)]
    return {
        "version": list(sys.version_info[:3]),
        "lacking": [module for module in asked["modules"] if _is_missing(module, path)],
        "syntax": syntax,
    }


def _is_missing(module, path):
    first = module.partition(".")[0]
    if first == "__main__":
        return False
    if not any(_finds(finder, first, path) for finder in sys.meta_path):
        return True
    try:
        return first != module and importlib.util.find_spec(module) is None
    except ImportError:  # the package around it
        return True
    except ValueError:  # it is loaded, without a spec
        return False


def _finds(finder, module, path):
    here = path if finder is importlib.machinery.PathFinder else None
    return hasattr(finder, "find_spec") and finder.find_spec(module, here) is not None


if __name__ == "__main__":
    del sys.path[0]
    print(json.dumps(answer(json.load(sys.stdin))))
