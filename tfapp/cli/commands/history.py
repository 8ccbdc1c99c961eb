"""Lists the runs of a history, the newest first: those of all users that have ended, whose
site.global.history.dir names the same folder or URL, given here by --dir or the variable
TFAPP_HISTORY. It needs neither an engine nor containers.

With a RUN, which is an id or the name of an application (its newest run), it shows that run, and
with -o writes its report. With several it compares them: what each component's first instance has
reported last.

  tfapp history --dir s3://bucket/history --state FAILED --since 7d
  tfapp history mnist -o mnist.html
  tfapp history application_1763920000000_0001 application_1763930000000_0001
  tfapp history --user ann --older-than 90d --remove
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from tfapp.cli.console import columns, number, when
from tfapp.cli.flags import add_format_flag, duration, file_path
from tfapp.cli.json_output import document
from tfapp.cli.shell import Shell
from tfapp.contract.names import FINAL_STATES
from tfapp.contract.status import how_long
from tfapp.errors import TfappError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfapp.contract.history import PastRun
    from tfapp.contract.metrics import Measure
    from tfapp.launch.history import History

MOST_COMPARED = 20  # runs
_HEADER = ("NAME", "STATE", "USER", "ENDED", "DURATION", "TAGS", "ID")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="an id, or a name for the newest run of this name"
    )
    parser.add_argument("--dir", metavar="DIR", help="the history (default: TFAPP_HISTORY)")
    states = ", ".join(FINAL_STATES)
    parser.add_argument(
        "--state", type=str.upper, choices=FINAL_STATES, metavar="STATE", help=states
    )
    parser.add_argument("--user", metavar="U", help="only runs of this user")
    parser.add_argument("--name", metavar="NAME", help="only runs of applications of this name")
    parser.add_argument("--tag", metavar="T", help="only runs with this tag")
    parser.add_argument(
        "--since", metavar="T", type=duration, help='only runs that ended after: "7d", "12 h" ago'
    )
    parser.add_argument(
        "--older-than", metavar="T", type=duration, help="only runs that ended before that"
    )
    parser.add_argument(
        "--beyond",
        metavar="SIZE",
        type=_size,
        help='only runs for which newer ones, by these options, leave no room in SIZE: "10GiB"',
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=file_path, help="write the report of one RUN"
    )
    parser.add_argument(
        "--remove", action="store_true", help="remove the runs that the options or RUNs select"
    )
    add_format_flag(parser)


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.launch.history import History

    history = History.at(args.dir, shell.environ, shell.cwd)
    found = history.named(args.runs) if args.runs else _selected(history, args)
    if args.output is not None:
        _write_report(history, found, args, shell)
    elif args.remove:
        _remove(history, found, args, shell)
    elif not args.runs:
        _list(found, args, shell)
    else:
        _compare(history, found, args, shell)


def _size(text: str) -> int:
    from tfapp.package import amounts

    try:
        return amounts.size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 10GiB") from error


def _selected(history: History, args: argparse.Namespace) -> list[PastRun]:
    from tfapp.contract.history import surplus

    now = time.time()
    found = [
        run
        for run in history.runs()
        if args.state in (None, run.state)
        and args.user in (None, run.user)
        and args.name in (None, run.name)
        and (args.tag is None or args.tag in run.tags)
        and (args.since is None or run.ended >= now - args.since)
    ]
    if args.older_than is not None or args.beyond is not None:
        # 0 means no limit there, and all of them here.
        age = 0.0 if args.older_than is None else max(args.older_than, 1e-9)
        found = surplus(found, now, age, 0 if args.beyond is None else max(args.beyond, 1))
    return found


def _list(found: Sequence[PastRun], args: argparse.Namespace, shell: Shell) -> None:
    if args.format == "json":
        shell.print(document(runs=[_data(run, None) for run in found]))
        return
    shell.print(columns(_HEADER, [_row(run) for run in found], shell.width, spare="ID"))
    if not found:
        shell.note("there is no such run")


def _row(run: PastRun) -> tuple[str, ...]:
    took = how_long(run.ended - run.started)
    tags = ",".join(run.tags) or "-"
    return (run.name, run.state, run.user or "-", when(run.ended), took, tags, run.id or "-")


def _data(run: PastRun, metrics: Mapping[str, Measure] | None) -> dict[str, Any]:
    return {
        "name": run.name,
        "id": run.id or None,
        "user": run.user or None,
        "state": run.state,
        "started": run.started,
        "ended": run.ended,
        "tags": list(run.tags),
        "size": run.size,
        "metrics": metrics,
    }


def _compare(
    history: History, found: Sequence[PastRun], args: argparse.Namespace, shell: Shell
) -> None:
    """Shows one run in full, or what several have reported."""
    from tfapp.cli.commands.status import text
    from tfapp.contract.terminal import plain
    from tfapp.engines.base import Application
    from tfapp.launch.history import first_metrics

    if len(found) > MOST_COMPARED:
        raise UsageError(f"{len(found)} runs are to be compared, at most {MOST_COMPARED} can be")
    statuses = [history.status(run) for run in found]
    metrics = [first_metrics(status) for status in statuses]
    if args.format == "json":
        shell.print(document(runs=[_data(*pair) for pair in zip(found, metrics)]))
    elif len(found) == 1:
        (one,), (status,) = found, statuses
        shown = Application(one.name, "", one.id, 0, False, status, one.tags)
        shell.print(plain(text(shown, "", shell.width)))
    else:
        header = ("METRIC", *(run.id or run.name for run in found))
        facts = zip(*((run.name, *_row(run)[1:5]) for run in found))
        rows = [(name.lower(), *row) for name, row in zip(_HEADER, facts)]
        for name in dict.fromkeys(name for own in metrics for name in own):
            rows.append((name, *(number(own.get(name)) for own in metrics)))
        shell.print(plain(columns(header, rows, shell.width)))


def _write_report(
    history: History, found: Sequence[PastRun], args: argparse.Namespace, shell: Shell
) -> None:
    from tfapp.disk import write_atomically, writing
    from tfapp.page.html import page

    if len(found) != 1 or not args.runs:
        raise UsageError("-o writes the report of one run", "Name it: `tfapp history` lists them.")
    content = page(history.document(found[0])).encode()
    target = shell.cwd / args.output
    with writing(target):
        write_atomically(target, content)
    shell.note(f"the report is in {target}")


def _remove(
    history: History, found: Sequence[PastRun], args: argparse.Namespace, shell: Shell
) -> None:
    chosen = (args.runs, args.state, args.user, args.name, args.tag, args.older_than, args.beyond)
    if not any(one not in (None, []) for one in chosen):
        raise UsageError(
            "--remove without a RUN or an option would remove all runs of everybody",
            "Say which, as in --user ann --older-than 90d.",
        )
    failed: TfappError | None = None
    for count, run in enumerate(found):
        try:
            history.place.remove(run.folder)
        except TfappError as error:  # such as another user's
            failed = failed or error
            shell.note(f"{run.id} is not removed: {error.message}")
            continue
        shell.note(f"{run.id} is removed ({count + 1} of {len(found)})")
    if failed is not None:
        raise failed
    if not found:
        shell.note("there is no such run")
