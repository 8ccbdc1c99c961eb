"""Determines which modules an interpreter can import and whether it can parse a program, without
running anything of it. Also a program for other interpreters, from Python 3.6 on: the question is
JSON on standard input, the answer JSON on standard output."""

import ast
import base64
import importlib.machinery
import json
import re
import sys

# In the source of a package that changes how modules are found.
_MAKES_MODULES = re.compile(rb"__path__|\bmodules\b|\bmeta_path\b")


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
    spec = _spec(first, path, None)
    for count in range(2, len(module.split(".")) + 1):
        if spec is None or _may_make_modules(spec):
            break
        where = spec.submodule_search_locations
        try:
            spec = _spec(".".join(module.split(".")[:count]), where, where)
        except KeyError:  # a namespace in a package, which would have to be loaded
            return False
    return spec is None


def _spec(module, path, others):
    """`path`: where files are looked for; `others`: what other finders are told of it."""
    for finder in sys.meta_path:
        here = path if finder is importlib.machinery.PathFinder else others
        spec = finder.find_spec(module, here) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def _may_make_modules(spec):
    """Whether there may be modules below this one that only its own code knows."""
    if spec.submodule_search_locations is None:
        return True
    if not spec.has_location:  # a namespace
        return False
    try:
        with open(spec.origin, "rb") as file:
            return bool(_MAKES_MODULES.search(file.read()))
    except OSError:  # in an archive
        return True


if __name__ == "__main__":
    del sys.path[0]
    print(json.dumps(answer(json.load(sys.stdin))))
