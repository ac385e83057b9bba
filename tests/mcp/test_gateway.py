"""The gateway example, started by its one command and used as its README says."""

import re
import subprocess
import sys
import time

import httpx

from conftest import NODE, ROOT, Process, environment, target

EXAMPLE = ROOT / "examples" / "mcp-gateway"


def test_the_gateway_example(tmp_path):
    # `environment` keeps nothing of ours, so what the command needs is given.
    env = {"TOOLCRIB_NODE": str(NODE.parent), "TOOLCRIB_BINARY": target("toolcrib")}
    process = Process([str(EXAMPLE / "start")], tmp_path, "gateway", **env)
    try:
        end = time.monotonic() + 60
        while not (found := re.search(r"endpoint: (\S+)\ntoken: +(\S+)", process.output())):
            assert process.process.poll() is None and time.monotonic() < end, process.output()
            time.sleep(0.1)
        url, token = found.groups()
        code = re.search(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL).group(1)
        (tmp_path / "client.py").write_text(code)
        done = subprocess.run([sys.executable, str(tmp_path / "client.py"), url, token], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "memory__read_graph" in done.stdout and "red kettle" in done.stdout
        assert "The sum of 2 and 3 is 5." in done.stdout and "everything__get_env" not in done.stdout
        inspector = ["mcp-inspector", "--cli", url, "--transport", "http", "--header", f"Authorization: Bearer {token}"]
        call = [*inspector, "--method", "tools/call", "--tool-name", "order_part", "--tool-arg", "number=3", "count=2"]
        env = environment(HOME=str(tmp_path))
        done = subprocess.run(call, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and '"part": 3' in done.stdout, done.stdout + done.stderr
        base = url.split("/v1/")[0]
        traces = httpx.get(f"{base}/v1/traces", headers={"Authorization": f"Bearer {token}"}).json()["traces"]
        assert {"order_part", "search_parts", "everything__get_sum"} <= {trace["tool"] for trace in traces}
    finally:
        process.stop()
