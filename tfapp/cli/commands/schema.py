"""Shows the keys of a package's documents, with type, default and meaning. WHAT is metainfo,
appConfig or resources (default: all three), or a key, or the beginning or the end of keys.

`--format json` prints a JSON Schema for an editor. The first line of a document tells the editor to
use it: `# yaml-language-server: $schema=FILE`.

  tfapp schema appConfig
  tfapp schema yarn.memory
  tfapp schema site.global.kubernetes
  tfapp schema appConfig --format json > appConfig.schema.json
"""

from __future__ import annotations

import argparse
import itertools
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfapp.cli.flags import add_format_flag
from tfapp.cli.shell import Shell
from tfapp.close_match import did_you_mean
from tfapp.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from tfapp.schema import KeyDescription

_WIDTH = 96

Keys = Mapping[str, "tuple[KeyDescription, ...]"]  # by the kind of document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tfapp.schema import KINDS

    parser.add_argument("what", metavar="WHAT", nargs="?", help=f"{', '.join(KINDS)}, or a key")
    parser.add_argument(
        "--without-effect",
        action="store_true",
        help="instead those that are refused or ignored, such as keys of Slider",
    )
    add_format_flag(parser, "text", "markdown", "json")


def run(args: argparse.Namespace, shell: Shell) -> None:
    """Prints the keys of one kind of document or of all, or those that are meant."""
    from tfapp.schema import KINDS, describe, schema_text

    if args.format == "json":
        if args.what not in KINDS:
            raise UsageError("a JSON Schema is of one kind", f"Name it: {', '.join(KINDS)}.")
        shell.print(schema_text(args.what), end="")
        return
    show = text if args.format == "text" else markdown
    known: Keys = {kind: describe(kind) for kind in KINDS}
    if args.what and args.what not in KINDS:
        known = _meant(args.what, known)
    else:
        kinds = [args.what] if args.what else KINDS
        known = {
            kind: tuple(key for key in known[kind] if bool(key.status) == args.without_effect)
            for kind in kinds
        }
    for kind, keys in known.items():
        shell.print(show(kind, keys, min(shell.width or _WIDTH, _WIDTH)))


def _meant(what: str, known: Keys) -> Keys:
    """The keys that are called so; else those that begin so, or end so. NotFoundError for none."""
    for fits in (
        lambda key: key == what,
        lambda key: key.startswith(f"{what}."),
        lambda key: key.endswith(f".{what}"),
    ):
        found = {kind: tuple(k for k in keys if fits(k.key)) for kind, keys in known.items()}
        if any(found.values()):
            return {kind: keys for kind, keys in found.items() if keys}
    names = {key.key for keys in known.values() for key in keys}
    hint = did_you_mean(what, names, "`tfapp schema` shows all.")
    raise NotFoundError(f"there is no key {what}", hint)


def text(kind: str, keys: tuple[KeyDescription, ...], width: int) -> str:
    """One paragraph for each key, under a heading for each section, in lines of `width`."""
    lines: list[str] = []
    for section, those in itertools.groupby(keys, lambda key: key.section):
        lines += [heading(kind, section), ""]
        for key in those:
            facts = "; ".join(filter(None, (key.type, key.default and f"default {key.default}")))
            lines.append(f"  {key.key}  ({facts})" if facts else f"  {key.key}")
            lines += textwrap.wrap(
                key.description, width, initial_indent="    ", subsequent_indent="    "
            )
            lines.append("")
    return "\n".join(lines)


def markdown(kind: str, keys: tuple[KeyDescription, ...], width: int) -> str:
    """One table for each section, whatever the width."""
    lines: list[str] = []
    for section, those in itertools.groupby(keys, lambda key: key.section):
        lines += ["", f"## {heading(kind, section)}", ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        for key in those:
            default = f"`{key.default}`" if key.default else ""
            cells = (f"`{key.key}`", key.type, default, key.description)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines[1:])


def heading(kind: str, section: str) -> str:
    """ "metainfo", "application.components[]" -> "metainfo: application.components[]"."""
    return f"{kind}: {section}" if section else kind
