"""Servers that are killed, an upstream that counts, and databases that both outlive."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from loopback import answers, free_port, wait_until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LEASE_MS = 1_000
FINAL = {"succeeded", "failed", "denied", "expired", "cancelled", "unknown"}


def program(name):
    path = Path(os.environ.get("TOOLCRIB_FAILPOINTS", str(ROOT / "target" / "failpoints"))) / name
    assert path.is_file(), f"{path} is missing: tests/ledger/build makes it"
    return str(path)


class Effects:
    def __init__(self):
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen([sys.executable, str(HERE / "effects.py"), str(self.port)])
        wait_until(lambda: answers(self.base))

    def counts(self):
        return httpx.get(self.base, timeout=10).json()

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def effects():
    upstream = Effects()
    yield upstream
    upstream.stop()


def an_hour_back():
    """The environment of a process whose clock is an hour behind: Debian's libfaketime."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        assert not os.environ.get("CI"), "libfaketime is missing, and CI skips nothing"
        return {}
    return {"LD_PRELOAD": str(library), "FAKETIME": "-1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def psql(url, sql):
    done = subprocess.run(["psql", "-qAtX", "-F", "\t", url, "-c", sql], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Database:
    """A SQLite file or a Postgres database of a test's own."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, Path(folder)
        if kind == "sqlite":
            self.url = f"sqlite:{self.folder / 'toolcrib.db'}"
        else:
            server = os.environ.get("TOOLCRIB_TEST_POSTGRES")
            if not server:
                assert not os.environ.get("CI"), "TOOLCRIB_TEST_POSTGRES is not set, and CI skips no test"
                pytest.skip("SKIPPED: set TOOLCRIB_TEST_POSTGRES to what `tests/postgres start FOLDER` prints")
            name = f"ledger_{os.getpid()}_{time.monotonic_ns()}"
            psql(server, f"CREATE DATABASE {name}")
            self.url = server.rsplit("/", 1)[0] + "/" + name

    def rows(self, sql):
        if self.kind == "postgres":
            return psql(self.url, sql)
        with sqlite3.connect(self.folder / "toolcrib.db", timeout=20) as db:
            return [[str(value) for value in row] for row in db.execute(sql).fetchall()]


class Replica:
    """A process that may be killed at any moment, and started again on the same port."""

    def __init__(self, database, folder, name="replica", program_name="toolcrib", url=None, **environment):
        self.database, self.folder, self.name = database, Path(folder), name
        self.program_name, self.url, self.environment = program_name, url or database.url, environment
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.process = self.token = None

    def start(self, **environment):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLCRIB_", "FAILPOINTS"))}
        env.update(
            TOOLCRIB_EGRESS_ALLOW_HTTP="1",
            TOOLCRIB_EGRESS_ALLOW_PRIVATE="1",
            TOOLCRIB_LEDGER__LEASE=str(LEASE_MS),
            TOOLCRIB_LEDGER__QUARANTINE="1",
            **self.environment,
            **environment,
        )
        address = f"127.0.0.1:{self.port}"
        if self.program_name == "toolcrib":
            command = [program("toolcrib"), "serve", "--bind", address, "--database-url", self.url]
        else:
            command = [program(self.program_name), address, self.url]
        self.log = self.folder / f"{self.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=env, cwd=self.folder, stdout=log, stderr=log)
        wait_until(lambda: self.process.poll() is not None or answers(f"{self.base}/readyz"))
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        return self

    def first_token(self):
        return wait_until(lambda: re.search(r"tcr_[0-9a-f]{64}", self.log.read_text())).group()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()


def client(base, token):
    return httpx.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def prepare(http, effects):
    """An agent and the tool whose effects are counted: with and without an approval."""
    for name, approval in [("pay", "never"), ("pay_if_approved", "always")]:
        tool = {
            "name": name, "description": "Pays once", "approval": approval, "timeout": 20,
            "parameters": {"type": "object", "required": ["key"],
                           "properties": {"key": {"type": "string"}, "delay": {"type": "number"}}},
            "request": {"method": "POST", "url": f"{effects.base}/pay", "body": {"key": "{{key}}", "delay": "{{delay}}"}},
        }
        assert http.put(f"/v1/tools/{name}", json=tool).status_code in (200, 201)
    assert http.put("/v1/agents/clerk", json={}).status_code in (200, 201)


def call(http, key, tool="pay", **arguments):
    body = {"tool": tool, "arguments": {"key": key, **arguments}, "call_id": key, "ctx": {"chat_id": "chat"}}
    return http.post("/v1/agents/clerk/calls", json=body)


def states(database):
    return {key: state for key, state in database.rows("SELECT call_id, state FROM ledger")}


def settled(database):
    """The states of all calls, once none moves any more."""
    found = states(database)
    return found if found and all(state in FINAL | {"in_doubt"} for state in found.values()) else None


def check(states, counts, answered=(), refused=()):
    """What the ledger promises, read from the upstream's own count."""
    for key, state in states.items():
        count = counts.get(key, 0)
        assert count <= 1, f"{key} was performed {count} times and is {state}"
        if state == "succeeded":
            assert count == 1, f"{key} is succeeded and was performed {count} times"
        if state in ("failed", "denied", "expired", "cancelled"):
            assert count == 0, f"{key} is {state} and was performed"
    fired = [key for key in refused if counts.get(key, 0)]
    assert not fired, f"their callers were told that nothing happened: {fired}"
    lost = [key for key in answered if key not in states]
    assert not lost, f"calls that were answered are in no row: {lost}"
    unknown = [key for key in counts if key not in states and key.split("-")[0] in {k.split("-")[0] for k in states}]
    assert not unknown, f"performed without a row: {unknown}"
