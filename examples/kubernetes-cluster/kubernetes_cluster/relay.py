"""Passes connections to a port of this computer's loopback on to an address that can be reached
from another process's network namespace alone. Prints its port once it listens.

    python relay.py PID-THERE PORT-HERE HOST-THERE PORT-THERE"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys


def main(pid: str, port: str, host: str, port_there: str) -> None:
    listening = socket.create_server(("127.0.0.1", int(port)), backlog=256)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    # What is opened from here on is there; what listens stays here.
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    print(listening.getsockname()[1], flush=True)
    asyncio.run(serve(listening, host, int(port_there)))


async def serve(listening: socket.socket, host: str, port: int) -> None:
    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reader_there, writer_there = await asyncio.open_connection(host, port)
        except OSError:  # nobody listens there
            writer.transport.abort()
            return
        await asyncio.gather(pump(reader, writer_there), pump(reader_there, writer))
        for end in (writer, writer_there):
            end.close()

    server = await asyncio.start_server(passed, sock=listening)
    async with server:
        await server.serve_forever()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of what comes, of which the other side is told."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


if __name__ == "__main__":
    main(*sys.argv[1:])
