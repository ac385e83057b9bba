"""Servers under test, a model whose answers are written down, and an upstream that counts."""

import json
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
LEASE_MS = 700


def program(name):
    path = ROOT / "target" / "debug" / name
    assert path.is_file(), f"{path} is missing: cargo build --workspace makes it"
    return str(path)


def node():
    """The folder of npm's packages, and the node that is among them."""
    folder = Path(os.environ.get("TOOLCRIB_NODE_TURNS", ROOT / ".node-turns"))
    binary = folder / "node_modules" / ".bin" / "node"
    if not binary.exists():
        assert not os.environ.get("CI"), f"{binary} is missing, and CI skips no test"
        pytest.skip(f"SKIPPED: npm install --prefix {folder} of tests/turns/package.json")
    return folder, str(binary)


class Background:
    """A process that is stopped with the test, and only that."""

    def __init__(self, command, log, ready, **more):
        with open(log, "ab") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, **more)
        wait_until(lambda: self.process.poll() is not None or answers(ready))
        assert self.process.poll() is None, Path(log).read_text()[-2000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()


class Model(Background):
    """A scripted model."""

    def __init__(self, folder, turns):
        port = free_port()
        script = Path(folder) / "script.json"
        script.write_text(json.dumps({"turns": turns}))
        self.base = f"http://127.0.0.1:{port}"
        command = [program("scripted-model"), str(script), str(port)]
        super().__init__(command, Path(folder) / "model.log", f"{self.base}/requests")


class Effects(Background):
    """An upstream that counts what it performs, by key."""

    def __init__(self, folder):
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        command = [sys.executable, str(ROOT / "tests" / "ledger" / "effects.py"), str(port)]
        super().__init__(command, Path(folder) / "effects.log", self.base)

    def counts(self):
        return httpx.get(self.base, timeout=10).json()


def database_url(kind, folder):
    if kind == "sqlite":
        return f"sqlite:{Path(folder) / 'toolcrib.db'}"
    server = os.environ.get("TOOLCRIB_TEST_POSTGRES")
    if not server:
        assert not os.environ.get("CI"), "TOOLCRIB_TEST_POSTGRES is not set, and CI skips no test"
        pytest.skip("SKIPPED: set TOOLCRIB_TEST_POSTGRES to what `tests/postgres start FOLDER` prints")
    name = f"turns_{os.getpid()}_{time.monotonic_ns()}"
    subprocess.run(["psql", "-qX", server, "-c", f"CREATE DATABASE {name}"], check=True)
    return server.rsplit("/", 1)[0] + "/" + name


class Server:
    """A Toolcrib whose agents ask the model, and that may be killed and started again on the same port."""

    def __init__(self, folder, model, url=None):
        self.folder, self.port = Path(folder), free_port()
        self.base, self.token = f"http://127.0.0.1:{self.port}", None
        self.log = self.folder / "server.log"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")},
            "TOOLCRIB_EGRESS_ALLOW_HTTP": "1",
            "TOOLCRIB_EGRESS_ALLOW_PRIVATE": "1",
            "TOOLCRIB_PROVIDERS__MAIN__FORMAT": "openai",
            "TOOLCRIB_PROVIDERS__MAIN__BASE_URL": f"{model.base}/v1",
            "TOOLCRIB_PROVIDERS__MAIN__ALLOW_HTTP": "1",
            "TOOLCRIB_PROVIDERS__MAIN__ALLOW_PRIVATE": "1",
            "TOOLCRIB_TURNS__LEASE": str(LEASE_MS),
            "TOOLCRIB_LEDGER__LEASE": str(LEASE_MS),
        }
        self.command = [program("toolcrib"), "serve", "--bind", f"127.0.0.1:{self.port}"]
        self.command += ["--database-url", url or database_url("sqlite", folder)]
        self.start()

    def start(self):
        self.running = Background(
            self.command, self.log, f"{self.base}/readyz", env=self.environment, cwd=self.folder
        )
        if self.token is None:
            self.token = wait_until(lambda: re.search(r"tcr_[0-9a-f]{64}", self.log.read_text())).group()

    def kill(self):
        self.running.kill()

    def stop(self):
        self.running.stop()

    def http(self):
        return httpx.Client(base_url=self.base, headers={"Authorization": f"Bearer {self.token}"}, timeout=60)

    def put(self, path, body):
        with self.http() as http:
            answer = http.put(path, json=body)
            assert answer.status_code in (200, 201), answer.text


@pytest.fixture
def stopping():
    """What is put in is stopped when the test is over."""
    running = []
    yield running
    for one in reversed(running):
        one.stop()
