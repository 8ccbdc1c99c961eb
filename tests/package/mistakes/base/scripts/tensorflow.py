from tfapp.script import Program, Script


class Tensorflow(Script):
    def start(self, context):
        return Program(("python3", context.config["user.scripts.entry"]))
