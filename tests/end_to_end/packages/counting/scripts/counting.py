"""Runs files/program.py; no TensorFlow anywhere."""

from tfapp.runner import tensorflow_env
from tfapp.script import Program, Script


class Counting(Script):
    def start(self, context):
        env = tensorflow_env.task_environment(context.instance, context.members)
        return Program((context.python, "-u", str(context.files_dir / "program.py")), env)
