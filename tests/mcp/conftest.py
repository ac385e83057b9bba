"""Toolcrib between MCP servers and MCP clients that others wrote.

Two folders hold what npm and PyPI give: TOOLCRIB_NODE (node_modules of package.json) and TOOLCRIB_MCP1 (a
virtual environment of requirements-sdk1.txt). The tests run in one of requirements.txt.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from loopback import free_port

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NODE = Path(os.environ.get("TOOLCRIB_NODE", ROOT / ".node")) / "node_modules"
BIN = Path(sys.executable).parent
BIN1 = Path(os.environ.get("TOOLCRIB_MCP1", ROOT / ".venv-mcp1")) / "bin"
ARTIFACTS = Path(os.environ.get("TOOLCRIB_ARTIFACTS", ROOT / "target" / "mcp-artifacts"))


def target(name):
    path = Path(os.environ.get("TOOLCRIB_TARGET", ROOT / "target" / "debug")) / name
    assert path.is_file(), f"build {path} first: cargo build --workspace"
    return str(path)


def environment(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
    env["PATH"] = f"{NODE / 'node' / 'bin'}:{NODE / '.bin'}:{env['PATH']}"
    env.update(more)
    return env


class Process:
    """A program with its output in a file, ended with everything it started."""

    def __init__(self, command, folder, name, **env):
        self.log_path = Path(folder) / f"{name}.log"
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(**env), stdout=self.log, stderr=self.log, start_new_session=True
        )

    def wait_for_port(self, port, seconds=40):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"ended with {self.process.returncode}: {self.output()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"no answer on {port} in {seconds} s: {self.output()}")

    def output(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        except ProcessLookupError:
            pass
        self.log.close()


class Toolcrib:
    def __init__(self, folder, **env):
        self.folder, self.port = Path(folder), free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        command = [target("toolcrib"), "serve", "--db", "toolcrib.db", "--bind", f"127.0.0.1:{self.port}"]
        env = {"TOOLCRIB_EGRESS_ALLOW_HTTP": "1", "TOOLCRIB_EGRESS_ALLOW_PRIVATE": "1", **env}
        self.process = Process(command, folder, "toolcrib", **env)
        self.process.wait_for_port(self.port)
        end = time.monotonic() + 20
        while not (found := re.search(r"tcr_[0-9a-f]{64}", self.process.output())):
            assert time.monotonic() < end, self.process.output()
            time.sleep(0.05)
        self.token = found.group()
        self.http = httpx.Client(base_url=self.base, headers={"Authorization": f"Bearer {self.token}"}, timeout=90)

    def add(self, name, url, **more):
        answer = self.http.put(f"/v1/mcp/servers/{name}", json={"url": url, **more})
        assert answer.status_code in (200, 201), answer.text
        return self.ingest(name)

    def ingest(self, name, **query):
        answer = self.http.post(f"/v1/mcp/servers/{name}/ingest", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def call(self, agent, tool, arguments=None, **more):
        answer = self.http.post(f"/v1/agents/{agent}/calls", json={"tool": tool, "arguments": arguments or {}, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put_agent(self, name, **profile):
        answer = self.http.put(f"/v1/agents/{name}", json=profile)
        assert answer.status_code in (200, 201), answer.text

    def put_tool(self, definition):
        answer = self.http.put(f"/v1/tools/{definition['name']}", json=definition)
        assert answer.status_code in (200, 201), answer.text

    def cli(self, *arguments, **more):
        command = [target("toolcrib"), "--server", self.base, "--token", self.token, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=90, **more
        )

    def endpoint(self, agent):
        return f"{self.base}/v1/agents/{agent}/mcp"

    def stop(self):
        self.http.close()
        self.process.stop()


@pytest.fixture(scope="session")
def toolcrib(tmp_path_factory):
    server = Toolcrib(tmp_path_factory.mktemp("toolcrib"), TOOLCRIB_SECRET_CRIB_TOKEN="mcp-secret-8841-value")
    server.put_agent("all")
    yield server
    server.stop()


def start_fastmcp(folder, name, *more, file="fastmcp_server.py"):
    port = free_port()
    command = [str(BIN / "fastmcp"), "run", f"{HERE / file}:mcp", "--transport", "http", "--host", "127.0.0.1"]
    process = Process([*command, "--port", str(port), "--no-banner", *more], folder, name)
    process.wait_for_port(port)
    return process, f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="session")
def fastmcp(tmp_path_factory):
    process, url = start_fastmcp(tmp_path_factory.mktemp("fastmcp"), "fastmcp")
    yield url
    process.stop()


@pytest.fixture(scope="session")
def fastmcp_stateless(tmp_path_factory):
    process, url = start_fastmcp(tmp_path_factory.mktemp("fastmcp"), "fastmcp", "--stateless")
    yield url
    process.stop()


@pytest.fixture(scope="session")
def constructs(toolcrib, fastmcp):
    toolcrib.add("constructs", fastmcp)
    return "constructs"


def keep(name, value):
    """Keeps a report as an artefact of the run."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    (ARTIFACTS / name).write_text(value if isinstance(value, str) else json.dumps(value, indent=2))
