"""Starts the dealer or a counter."""

from __future__ import annotations

from tfapp.script import Context, Program, Script, ScriptError


class Primes(Script):
    def prepare(self, context: Context) -> None:
        """Says what is wrong before anything waits for this instance."""
        for key in ("primes.limit", "primes.range"):
            if not context.config[key].isdigit() or not int(context.config[key]):
                raise ScriptError(f"site.global.{key} is no number above 0: {context.config[key]}")

    def start(self, context: Context) -> Program:
        program = (context.python, "-u", str(context.files_dir / "primes.py"))
        if context.component.name == "dealer":
            port = str(context.ports["dealer.port"])
            numbers = (context.config["primes.limit"], context.config["primes.range"])
            argv = (*program, "deal", port, *numbers, context.checkpoint_dir)
            return Program(argv, release_ports=("dealer.port",))
        (dealer,) = [one for one in context.members if one.instance == "dealer/0"]
        return Program((*program, "count", dealer.exports["dealer"]["host_port"]))
