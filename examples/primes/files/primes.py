"""Counts the primes below a limit, in ranges.

python primes.py deal PORT LIMIT RANGE FOLDER    hand out the ranges, keep what was found in FOLDER
python primes.py count HOST:PORT                 count in one range after the other
"""

import json
import pathlib
import sys
import time
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCServer

PATIENCE = 60  # seconds until the dealer listens


class Dealer:
    def __init__(self, limit, size, folder):
        self.limit, self.size = limit, size
        self.file = pathlib.Path(folder, "found.json")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        known = self.file.read_text() if self.file.exists() else "{}"
        self.found = {int(start): count for start, count in json.loads(known).items()}
        self.todo = [start for start in range(0, limit, size) if start not in self.found]
        print(f"{len(self.found)} ranges are done, {len(self.todo)} are to do")

    def take(self):
        """[start, end] of a range, or [] at the end. A range whose counter may be gone is given
        again once there is no other."""
        if not self.todo:
            return []
        start = self.todo.pop(0)
        self.todo.append(start)
        return [start, min(start + self.size, self.limit)]

    def give(self, start, count):
        """What a counter has found. Told twice, it counts once."""
        if start not in self.found:
            self.found[start] = count
            self.todo.remove(start)
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(self.found))
            new.replace(self.file)  # a killed dealer leaves no half of a file
            if not self.todo:
                print(f"there are {sum(self.found.values())} primes below {self.limit}")
        return True


def deal(port, limit, size, folder):
    with SimpleXMLRPCServer(("", int(port)), logRequests=False) as server:
        server.register_instance(Dealer(int(limit), int(size), folder))
        server.serve_forever()


def count(address):
    dealer = ServerProxy(f"http://{address}")
    wait_for(dealer)
    while given := dealer.take():
        dealer.give(given[0], sum(map(is_prime, range(*given))))


def wait_for(dealer):
    """All programs start at about the same time."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return dealer.take()
        except ConnectionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def is_prime(number):
    if number < 4:
        return number > 1
    return all(number % divisor for divisor in (2, *range(3, int(number**0.5) + 1, 2)))


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    {"deal": deal, "count": count}[command](*words)
