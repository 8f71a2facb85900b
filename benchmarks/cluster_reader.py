"""A bare client of an API server: reads all pods, and decodes their events; run by `cluster.py`.

The baseline of the manager: aiohttp and msgspec, and no use of the objects read. The argument is the
URL of the server. Prints the processor time of the list, then, for each line on standard input, what
the watch took until then.
"""

import asyncio
import sys
import time

import aiohttp
import msgspec

from cluster_messages import Read


async def main(url: str) -> None:
    """List, then watch until killed."""
    no_limit = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, timeout=no_limit, read_bufsize=1 << 20) as session:
        began, count, rest = time.process_time(), 0, ""
        while True:
            async with session.get("/api/v1/pods", params={"limit": 500, "continue": rest}) as response:
                page = msgspec.json.decode(await response.read())
            count += len(page["items"])
            rest = page["metadata"].get("continue", "")
            if not rest:
                break
        _tell(Read(count, time.process_time() - began))
        version = page["metadata"]["resourceVersion"]
        del page
        await _watch(session, version)


async def _watch(session: aiohttp.ClientSession, version: str) -> None:
    began, count = time.process_time(), 0
    loop = asyncio.get_running_loop()

    def answer() -> None:
        sys.stdin.readline()
        _tell(Read(count, time.process_time() - began))
        loop.add_reader(sys.stdin, answer)

    loop.add_reader(sys.stdin, answer)
    rest = b""
    async with session.get("/api/v1/pods", params={"watch": "1", "resourceVersion": version}) as response:
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                msgspec.json.decode(line)
                count += 1


def _tell(read: Read) -> None:
    print(msgspec.json.encode(read).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
