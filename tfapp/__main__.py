"""The entry point of `python -m tfapp` and of the command `tfapp`."""

import sys


def main() -> int:
    """Runs the command line. A Ctrl-C during its import ends the process quietly."""
    try:
        from tfapp.cli.main import main as command

        return command()
    except KeyboardInterrupt:
        from tfapp.errors import ExitCode

        return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
