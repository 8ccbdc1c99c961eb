"""Shows the keys of a package's documents: type, default, meaning. KIND is metainfo, appConfig
or resources; without it, all three.

`--format json` prints a JSON Schema for an editor, which is told about it by a first line
`# yaml-language-server: $schema=FILE` in the document.

  tfapp schema appConfig
  tfapp schema appConfig --format json > appConfig.schema.json
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from tfapp.cli.engine_flags import add_format_flag
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from tfapp.schema import KeyDescription

_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tfapp schema`."""
    from tfapp.schema import KINDS

    parser.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, help=", ".join(KINDS))
    add_format_flag(parser, "text", "markdown", "json")


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Prints the keys of one kind of document or of all."""
    from tfapp.schema import KINDS, describe, schema_text

    if args.format == "json":
        if not args.kind:
            raise UsageError("a JSON Schema is of one kind", f"Name it: {', '.join(KINDS)}.")
        shell.out.write(schema_text(args.kind))
        return ExitCode.SUCCESS
    show = text if args.format == "text" else markdown
    for kind in (args.kind,) if args.kind else KINDS:
        shell.print(show(kind, describe(kind)))
    return ExitCode.SUCCESS


def text(kind: str, keys: tuple[KeyDescription, ...]) -> str:
    """One paragraph for each key, under a heading for each section."""
    lines: list[str] = []
    section = None
    for key in keys:
        if key.section != section:
            section = key.section
            lines += [heading(kind, section), ""]
        facts = "; ".join(filter(None, (key.type, key.default and f"default {key.default}")))
        lines.append(f"  {key.key}  ({facts})" if facts else f"  {key.key}")
        lines += textwrap.wrap(
            key.description, _WIDTH, initial_indent="    ", subsequent_indent="    "
        )
        lines.append("")
    return "\n".join(lines)


def markdown(kind: str, keys: tuple[KeyDescription, ...]) -> str:
    """One table for each section."""
    lines: list[str] = []
    section = None
    for key in keys:
        if key.section != section:
            section = key.section
            lines += ["", f"## {heading(kind, section)}", ""]
            lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        default = f"`{key.default}`" if key.default else ""
        cells = (f"`{key.key}`", key.type, default, key.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines[1:])


def heading(kind: str, section: str) -> str:
    """ "metainfo", "application.components[]" -> "metainfo: application.components[]"."""
    return f"{kind}: {section}" if section else kind
