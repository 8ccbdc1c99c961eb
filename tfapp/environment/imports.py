"""Finds the imports, and the environment variables that are read, in the source of a program."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from tfapp.frozen import frozen
from tfapp.sources import parsed

# Whether an import is carried out: when the module is loaded, when a function is called, or
# perhaps never, as in `try: ... except ImportError:` and below an `if`.
AT_LOAD, IN_FUNCTION, PERHAPS = "at load", "in a function", "perhaps"

_FORGIVING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_READERS = frozenset({"get", "pop", "setdefault"})  # of os.environ


@frozen
class Import:
    """An import. `module`: the dotted name. `line` and `column`: from 1. `when`: one of the
    constants above. `sure`: False for `module.name` of `from module import name`, which may be no
    module."""

    module: str
    line: int
    column: int
    when: str = AT_LOAD
    sure: bool = True


def imports_of(
    source: bytes | str, package: str = "", called: Collection[str] | None = ()
) -> list[Import]:
    """The imports in the source of a module of `package`, in the order of lines. Blocks of `if
    TYPE_CHECKING` are left out. Imports in the functions `called` (None: in all) count as imported
    at load time. Empty for source that this Python cannot parse."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = _walk(tree.body, AT_LOAD, package, called)
    return sorted(found, key=lambda one: (one.line, one.column, not one.sure))


def _walk(
    nodes: Iterable[ast.stmt], when: str, package: str, called: Collection[str] | None
) -> Iterator[Import]:
    for node in nodes:
        inside = when
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node, when, package)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if when == AT_LOAD and called is not None and node.name not in called:
                inside = IN_FUNCTION
        elif isinstance(node, ast.If) or _forgives(node):
            inside = PERHAPS
        yield from _walk(_below(node), inside, package, called)


def _below(node: ast.stmt) -> Iterator[ast.stmt]:
    if not (isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING"):
        yield from getattr(node, "body", ())
    yield from getattr(node, "orelse", ())
    yield from getattr(node, "finalbody", ())
    for branch in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from branch.body


def _imported(node: ast.Import | ast.ImportFrom, when: str, package: str) -> Iterator[Import]:
    at = (node.lineno, node.col_offset + 1, when)
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, *at)
        return
    module = absolute(node.module or "", node.level, package)
    if module:
        yield Import(module, *at)
        for alias in node.names:
            if alias.name != "*":
                yield Import(f"{module}.{alias.name}", *at, sure=False)


def absolute(module: str, level: int, package: str) -> str:
    """The absolute name for `from ..module import` in `package`; "" if there is none."""
    if not level:
        return module
    parts = package.split(".")[: len(package.split(".")) - level + 1] if package else []
    return ".".join((*parts, module)).rstrip(".") if parts else ""


def _forgives(node: ast.stmt) -> bool:
    """Whether a statement catches the failure of an import inside it."""
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items]
        return any(isinstance(call, ast.Call) and _name(call.func) == "suppress" for call in calls)
    for handler in getattr(node, "handlers", ()):
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(kind is None or _name(kind) in _FORGIVING for kind in kinds):
            return True
    return False


def _name(node: ast.AST | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@frozen
class Variable:
    """A variable that is read by its name. `line` and `column`: from 1."""

    name: str
    line: int
    column: int


def variables_of(source: bytes) -> list[Variable]:
    """The variables that `source` reads by a constant name: os.environ["NAME"], os.environ.get and
    os.getenv, however they were imported. Empty for source that this Python cannot parse."""
    if b"environ" not in source and b"getenv" not in source:
        return []
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [
        Variable(name, node.lineno, node.col_offset + 1)
        for node, read in _reads(tree)
        if isinstance(name := getattr(read, "value", None), str)
    ]


def _reads(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The expressions that read a variable, and the expressions of its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            if _name(node.value) == "environ":
                yield node, node.slice
        elif isinstance(node, ast.Call) and node.args:
            of = getattr(node.func, "value", None)
            called = _name(node.func)
            if called == "getenv" or (called in _READERS and _name(of) == "environ"):
                yield node, node.args[0]
