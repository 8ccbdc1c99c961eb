"""What a PodLauncher is made with in tests, and what it tells."""

import time

from tfapp.engines.credentials import new_credentials
from tfapp.master.server import Endpoint

ENDPOINT = Endpoint("127.0.0.1", "127.0.0.1", *new_credentials(time.time()))


class Told:
    """See tfapp.master.launcher.Told: remembers."""

    def __init__(self):
        self.words = []
        self.kinds = []
        self.hosts = []

    def granted(self, host):
        self.hosts.append(host)
        return True

    def waits(self, text, kind=""):
        self.words.append(text)
        self.kinds.append(kind)

    @property
    def waited(self):
        """The words with their kinds."""
        return list(zip(self.words, self.kinds))


class Script:
    """A launcher of the master script."""

    async def close(self):
        return None

    async def kill(self, id):
        return None
