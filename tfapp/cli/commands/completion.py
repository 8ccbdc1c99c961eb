"""Prints a script that makes a shell complete command lines of tfapp with the Tab key: commands,
flags, and the names of applications, components, instances and keys. Add it to the shell's start-up
file:

  eval "$(tfapp completion bash)"          # ~/.bashrc
  eval "$(tfapp completion zsh)"           # ~/.zshrc, after compinit
  tfapp completion fish | source           # ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse

from tfapp.cli.shell import Shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace, shell: Shell) -> None:
    from tfapp.cli.completion import shell_code

    shell.print(shell_code(args.shell))
