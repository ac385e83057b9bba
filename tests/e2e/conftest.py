"""The server under test between servers and clients that others wrote.

httpbin and datasette are the upstreams; httpx and the providers' own packages are the clients.
"""

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
from loopback import free_port

from manifest import build

ROOT = Path(__file__).resolve().parents[2]
SECRET = "e2e-secret-5512-value"


def wait_for(url, process, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{url}: the process ended with {process.returncode}")
        try:
            httpx.get(url, timeout=1)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} did not answer in {seconds} s")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def binary():
    path = os.environ.get("TOOLCRIB_BINARY", str(ROOT / "target" / "debug" / "toolcrib"))
    assert Path(path).is_file(), f"build {path} first: cargo build"
    return path


@pytest.fixture(scope="session")
def httpbin():
    port = free_port()
    serve = "from waitress import serve; from httpbin import app; import sys; serve(app, host='127.0.0.1', port=int(sys.argv[1]), threads=8)"
    process = subprocess.Popen([sys.executable, "-c", serve, str(port)], stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    wait_for(f"{base}/get", process)
    yield base
    stop(process)


@pytest.fixture(scope="session")
def datasette(tmp_path_factory):
    path = tmp_path_factory.mktemp("datasette") / "shop.db"
    with sqlite3.connect(path) as db:
        db.execute("create table products (sku text primary key, name text, price real, stock integer)")
        rows = [(f"K{i}", f"Kettle {i}", 10.5 + i, i % 3) for i in range(40)]
        db.executemany("insert into products values (?, ?, ?, ?)", rows)
        db.execute("create table orders (id integer primary key, sku text references products(sku), state text)")
        db.executemany("insert into orders (sku, state) values (?, ?)", [("K1", "OPEN"), ("K2", "SHIPPED"), ("K3", "OPEN")])
    port = free_port()
    command = [sys.executable, "-m", "datasette", str(path), "--port", str(port), "--setting", "sql_time_limit_ms", "5000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    wait_for(f"{base}/-/versions.json", process)
    yield base
    stop(process)


class Server:
    """A toolcrib process on a database file."""

    def __init__(self, folder, port=None, token=None, **environment):
        self.folder, self.port = Path(folder), port or free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = open(self.folder / "log.txt", "ab")
        env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
        env.update(
            TOOLCRIB_EGRESS_ALLOW_HTTP="1",
            TOOLCRIB_EGRESS_ALLOW_PRIVATE="1",
            TOOLCRIB_SECRET_API_TOKEN=SECRET,
            TOOLCRIB_MANIFEST__ENV="HTTPBIN,DATASETTE",
            **environment,
        )
        command = [binary(), "serve", "--db", str(self.folder / "toolcrib.db"), "--bind", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=self.log)
        wait_for(f"{self.base}/readyz", self.process)
        if token is None:
            text = b""
            while not (found := re.search(rb"tcr_[0-9a-f]{64}", text)):
                text += self.process.stdout.readline()
            token = found.group().decode()
        self.token = token
        self.http = httpx.Client(base_url=self.base, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def call(self, agent, tool, arguments=None, **more):
        answer = self.http.post(f"/v1/agents/{agent}/calls", json={"tool": tool, "arguments": arguments or {}, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def trace(self, outcome):
        return self.http.get(f"/v1/traces/{outcome['trace_id']}").json()

    def stop(self):
        stop(self.process)
        self.log.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory, httpbin, datasette):
    server = Server(tmp_path_factory.mktemp("toolcrib"), HTTPBIN=httpbin, DATASETTE=datasette)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def tools(server):
    manifest = build()
    answer = server.http.post("/v1/tools/manifest", json=manifest).json()
    assert answer["errors"] == []
    assert len(answer["created"]) == len(manifest["tools"]) >= 25
    again = server.http.post("/v1/tools/manifest", json=manifest).json()
    assert (again["created"], again["updated"]) == ([], []) and len(again["unchanged"]) == len(manifest["tools"])
    assert server.http.put("/v1/agents/all", json={}).status_code == 201
    assert server.http.put("/v1/agents/shop", json={"tools_allow_groups": ["shop"]}).status_code == 201
    return server
