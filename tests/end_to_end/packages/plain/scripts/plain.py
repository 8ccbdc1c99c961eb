"""Runs files/program.py as it is; no TensorFlow anywhere."""

from tfapp.script import Program, Script


class Plain(Script):
    def start(self, context):
        words = context.words("user.scripts.args")
        return Program((context.python, "-u", str(context.files_dir / "program.py"), *words))
