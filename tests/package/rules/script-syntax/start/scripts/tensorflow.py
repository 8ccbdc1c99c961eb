from tfapp.script import Script


class Tensorflow(Script):
    def start(self, context):
        return = context.python
