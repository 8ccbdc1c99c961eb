"""The documents in cases/, and what is found in them.

cases/{valid,invalid}/<kind>/<name>.yaml or .json, and beside it <name>.expected with one finding
after another as `report` writes them. A new case is a new file. A valid document has no errors;
what it is warned about stands in its .expected, which may lack.
"""

from pathlib import Path

from tfapp.documents import read_document
from tfapp.problems import Problem
from tfapp.schema import check_document, check_extension

CASES = Path(__file__).parent / "cases"


def documents(outcome: str) -> list[Path]:
    """The documents in cases/valid or cases/invalid."""
    return sorted(path for path in (CASES / outcome).glob("*/*") if path.suffix != ".expected")


def findings(path: Path) -> tuple[Problem, ...]:
    """Everything that is found in the document at `path`, whose kind its folder says."""
    syntax = "json" if path.suffix == ".json" else "yaml"
    document, problems = read_document(path.name, path.read_bytes(), syntax)
    assert document is not None and problems == (), problems
    kind = path.parent.name
    if kind == "extension":
        return check_extension(document)[1]
    return check_document(document, kind)[1]


def report(problems: tuple[Problem, ...]) -> str:
    """Findings as text: each on a line, its hint indented below."""
    hints = (f"\n  hint: {problem.hint}" if problem.hint else "" for problem in problems)
    return "".join(f"{problem}{hint}\n" for problem, hint in zip(problems, hints))


def expected(path: Path) -> str:
    """The content of a document's .expected file; "" without one."""
    file = path.with_suffix(".expected")
    return file.read_text("utf-8") if file.exists() else ""
