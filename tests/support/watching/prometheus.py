"""A real Prometheus that scrapes what a test runs."""

import asyncio
import math
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import yaml

from support.packaging.programs import program
from support.ports import free_port

_SECONDS = 120.0
_LOOK_SECONDS = 0.1


class Figure(NamedTuple):
    """What a panel shows."""

    series: int
    points: int
    highest: float


class Prometheus:
    """`async with Prometheus(folder, targets={job: port}, rules=FILE)`: scraped twice in a second."""

    def __init__(self, folder: Path, *, targets: Mapping[str, int], rules: Path) -> None:
        self._folder = folder
        self._url = f"http://127.0.0.1:{free_port()}"
        self._targets = targets
        self._rules = rules
        self._program = program("prometheus")
        self._process: asyncio.subprocess.Process | None = None
        self.began_at = time.time()

    async def __aenter__(self) -> Self:
        scraped = [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for job, port in self._targets.items()
        ]
        settings = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"}
        content = {"global": settings, "rule_files": [str(self._rules)], "scrape_configs": scraped}
        config = self._folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(content))
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._program,
                f"--config.file={config}",
                f"--storage.tsdb.path={self._folder / 'prometheus'}",
                f"--web.listen-address={self._url.removeprefix('http://')}",
                stdout=log,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
            )
        try:
            await self.until_scraped()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            async with asyncio.timeout(10):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def until_scraped(self) -> None:
        """Wait until every target has been scraped twice: a rate needs two samples."""
        await self.until("count_over_time(up[1m]) >= 2 and up == 1", series=len(self._targets))

    async def until(self, query: str, *, series: int = 1) -> None:
        """Wait until a query has so many series."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                found = await self.ask("query", query=query)
                if len(found["result"]) >= series:
                    return
            except (aiohttp.ClientError, AssertionError):
                pass
            if time.monotonic() > deadline:
                log = (self._folder / "prometheus.log").read_text()
                raise AssertionError(f"never {series} series of {query}: {log[-3000:]}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def ask(self, what: str, **values: str) -> Any:
        """Return the data that one of the queries of its API answers with."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(f"{self._url}/api/v1/{what}", params=values) as response,
        ):
            assert response.status == HTTPStatus.OK, await response.text()  # 503 until it is ready
            answer = await response.json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def figure(self, query: str) -> Figure:
        """Return what a panel with this query would show, looked at every second since the beginning."""
        # A second more than there is: steps are counted from the beginning, and the last must not be missed.
        data = await self.ask(
            "query_range", query=query, start=str(self.began_at), end=str(time.time() + 1), step="1s"
        )
        shown = [
            [number for _, value in series["values"] if math.isfinite(number := float(value))]
            for series in data["result"]
        ]
        numbers = [number for one in shown for number in one]
        return Figure(sum(bool(one) for one in shown), len(numbers), max(numbers, default=math.nan))
