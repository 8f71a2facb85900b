"""A clock for one coroutine that waits by itself."""

import asyncio


class VirtualTime:
    """A clock that only sleeping moves; `at` runs something when its time has come."""

    def __init__(self):
        self.time = 0.0
        self.due = []

    def at(self, when, action):
        self.due.append((when, action))

    def now(self):
        return self.time

    async def sleep(self, seconds):
        self.time += seconds
        for item in [item for item in self.due if item[0] <= self.time]:
            self.due.remove(item)
            item[1]()
        await asyncio.sleep(0)
