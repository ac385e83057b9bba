"""Runs the comparison: run.py [--seconds 5] [server ...]"""

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target" / "mcp-peers"
UPSTREAM = "http://127.0.0.1:18080"
KIB = "x" * 1024
ARGUMENTS = {"query": "red kettle", "limit": 3}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fetch", "arguments": ARGUMENTS}}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for"},
        "limit": {"type": "integer", "description": "How many at most"},
    },
    "required": ["query", "limit"],
}
UVICORN = ["--host", "127.0.0.1", "--workers", "1", "--no-access-log", "--log-level", "warning"]


def send(url, message, method="POST", headers=None):
    request = urllib.request.Request(url, json.dumps(message).encode(), headers or HEADERS, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read() or b"null")


def environment(folder, *packages):
    """A virtual environment with these packages, made once."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = folder / "venv" / "bin" / "pip"
    if not pip.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([pip, "install", "-q", "--disable-pip-version-check", "--prefer-binary", *packages], check=True)


class Process:
    def __init__(self, command, folder, **env):
        self.log = open(folder / "log", "wb")
        env = {**os.environ, **env}
        self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=self.log, stderr=self.log)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def resident_mib(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


class Peer:
    """An MCP server at /mcp of a port."""

    def __init__(self, name, port):
        self.folder, self.port, self.headers = WORK / name, port, dict(HEADERS)
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.folder.mkdir(parents=True, exist_ok=True)

    def wait(self, process, url=None):
        end = time.monotonic() + 120
        while True:
            try:
                send(url or self.url, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=self.headers)
                return
            except (urllib.error.URLError, ConnectionError) as error:
                if isinstance(error, urllib.error.HTTPError) and url:
                    return
                if process.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{self.folder.name} did not start: see {self.folder}/log") from error
                time.sleep(0.2)


class Toolcrib(Peer):
    def start(self):
        for file in self.folder.glob("bench.db*"):
            file.unlink()
        binary = os.environ.get("TOOLCRIB_BINARY", ROOT / "target" / "release" / "toolcrib")
        command = [binary, "serve", "--db", "bench.db", "--bind", f"127.0.0.1:{self.port}"]
        process = Process(command, self.folder, TOOLCRIB_EGRESS_ALLOW_HTTP="1", TOOLCRIB_EGRESS_ALLOW_PRIVATE="1")
        base = f"http://127.0.0.1:{self.port}"
        self.url = f"{base}/v1/agents/bench/mcp"
        end = time.monotonic() + 30
        while not (token := re.search(r"tcr_[0-9a-f]{64}", (self.folder / "log").read_text())):
            assert time.monotonic() < end and process.process.poll() is None, f"see {self.folder}/log"
            time.sleep(0.1)
        self.headers["Authorization"] = f"Bearer {token.group()}"
        tool = {
            "name": "fetch", "description": "Fetch one KiB", "parameters": SCHEMA,
            "request": {"url": f"{UPSTREAM}/x", "query": {"q": "{{query}}"}},
        }
        send(f"{base}/v1/tools/fetch", tool, "PUT", self.headers)
        send(f"{base}/v1/agents/bench", {}, "PUT", self.headers)
        return process


class Toolbox(Peer):
    def start(self):
        install = ["npm", "install", "--prefix", self.folder, "--no-package-lock", "--no-audit", "--no-fund"]
        subprocess.run([*install, "--loglevel=error", "@toolbox-sdk/server@1.12.0"], check=True)
        shutil.copy(HERE / "toolbox.yaml", self.folder)
        binary = next((self.folder / "node_modules" / "@toolbox-sdk").glob("server-*/bin/toolbox"))
        flags = ["--log-level", "WARN", "--disable-reload", "--disable-version-check"]
        place = ["--config", "toolbox.yaml", "--address", "127.0.0.1", "--port", str(self.port)]
        return Process([binary, *place, *flags], self.folder)


class FastMcp(Peer):
    def start(self):
        environment(self.folder, "fastmcp==4.1.6", "httpx==0.28.1", "uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0")
        shutil.copy(HERE / "fastmcp_server.py", self.folder)
        command = ["venv/bin/uvicorn", "fastmcp_server:app", "--loop", "uvloop", "--http", "httptools"]
        return Process([*command, *UVICORN, "--port", str(self.port)], self.folder)


class ContextForge(Peer):
    def start(self):
        environment(self.folder, "mcp-contextforge-gateway==1.0.7.post20260921")
        for file in self.folder.glob("mcp.db*"):
            file.unlink()
        names = ["JWT_SECRET_KEY", "AUTH_ENCRYPTION_SECRET", "BASIC_AUTH_PASSWORD", "PLATFORM_ADMIN_PASSWORD"]
        made_up = "".join(f"{name}={secrets.token_urlsafe(48)}\n" for name in names)
        (self.folder / ".env").write_text((HERE / "contextforge.env").read_text() + made_up)
        process = Process(["venv/bin/mcpgateway", *UVICORN, "--port", str(self.port)], self.folder)
        self.wait(process)
        tool = {
            "name": "fetch", "url": f"{UPSTREAM}/x", "description": "Fetch one KiB", "integration_type": "REST",
            "request_type": "GET", "input_schema": SCHEMA, "query_mapping": {"query": "q"}, "visibility": "public",
        }
        send(f"http://127.0.0.1:{self.port}/v1/tools", {"tool": tool})
        return process


PEERS = {"toolcrib": (Toolcrib, 18100), "toolbox": (Toolbox, 18101), "fastmcp": (FastMcp, 18102),
         "contextforge": (ContextForge, 18103)}


def upstream_requests():
    with urllib.request.urlopen(f"{UPSTREAM}/status", timeout=10) as response:
        return int(response.read().splitlines()[2].split()[2])


def load(peer, connections, seconds):
    quoted = "".join(f"wrk.headers[{json.dumps(key)}] = {json.dumps(value)}\n" for key, value in peer.headers.items())
    script = peer.folder / "call.lua"
    script.write_text(f'''wrk.method = "POST"
wrk.body = [==[{json.dumps(CALL)}]==]
{quoted}
function done(summary, latency)
    local e = summary.errors
    print(string.format('{{"requests":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,"failed":%d}}',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        e.connect + e.read + e.write + e.status + e.timeout))
end
''')
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", script, peer.url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, seconds):
    kind, port = PEERS[name]
    peer = kind(name, port)
    process = peer.start()
    try:
        peer.wait(process)
        answer = send(peer.url, CALL, headers=peer.headers)
        assert KIB in answer["result"]["content"][0]["text"], answer
        load(peer, 16, 2)
        for connections in (1, 16, 64):
            time.sleep(1)
            before = upstream_requests()
            run = load(peer, connections, seconds)
            assert upstream_requests() - before > run["requests"], "an answer came from a cache"
            rate = run["requests"] / run["seconds"]
            print(f"{name:<14}{connections:>6}{rate:>10.0f}{run['p50']:>10.2f}{run['p99']:>10.2f}{run['failed']:>8}"
                  f"{process.resident_mib():>9.0f}", flush=True)
    finally:
        process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", default=list(PEERS))
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    upstream = WORK / "upstream"
    upstream.mkdir(parents=True, exist_ok=True)
    (upstream / "nginx.conf").write_text((HERE / "nginx.conf").read_text().replace("@KIB@", KIB))
    nginx = Process([shutil.which("nginx") or "/usr/sbin/nginx", "-p", upstream, "-c", "nginx.conf"], upstream)
    try:
        print(f"{'server':<14}{'conns':>6}{'req/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'failed':>8}{'MiB':>9}")
        for name in options.servers:
            measure(name, options.seconds)
    finally:
        nginx.stop()


if __name__ == "__main__":
    main()
