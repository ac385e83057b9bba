"""A server that wants OAuth: the person's part is done by an HTTP client."""

import re
import signal
import subprocess
import sys

import httpx

from conftest import HERE, Process, Toolcrib, environment, free_port, target


def test_login_in_a_browser(tmp_path):
    port = free_port()
    process = Process([sys.executable, str(HERE / "oauth_server.py"), str(port)], tmp_path, "oauth")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    crib = Toolcrib(tmp_path, TOOLCRIB_SECRETS__DIR=str(secrets))
    try:
        process.wait_for_port(port)
        crib.put_agent("all")
        server = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer {{secret.guarded}}"}}
        crib.http.put("/v1/mcp/servers/guarded", json=server).raise_for_status()
        missing = crib.http.post("/v1/mcp/servers/guarded/ingest")
        assert missing.status_code == 502 and missing.json()["code"] == "mcp.secret", missing.text

        command = [target("toolcrib"), "--server", crib.base, "--token", crib.token, "mcp", "login", "guarded"]
        env = environment(TOOLCRIB_EGRESS_ALLOW_HTTP="1", TOOLCRIB_EGRESS_ALLOW_PRIVATE="1")
        login = subprocess.Popen([*command, "--save", str(secrets)], env=env, cwd=tmp_path, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        url = None
        while url is None:
            line = login.stderr.readline()
            assert line or login.poll() is None, login.stderr.read()
            url = (re.search(r"(http\S+)", line) or [None])[0]
        page = httpx.get(url, follow_redirects=True, timeout=20)
        assert page.text.startswith("Thank you"), page.text
        out, err = login.communicate(timeout=30)
        assert login.returncode == 0, err
        token = (secrets / "guarded").read_text()
        assert token and token not in out + err and (secrets / "guarded").stat().st_mode & 0o077 == 0

        crib.process.process.send_signal(signal.SIGHUP)
        report = None
        for _ in range(50):
            answer = crib.http.post("/v1/mcp/servers/guarded/ingest")
            if answer.status_code == 200:
                report = answer.json()
                break
        assert report and report["added"] == 1, answer.text
        assert "let in" in str(crib.call("all", "guarded__guarded"))
        assert token not in crib.http.get("/v1/mcp/servers").text + crib.process.output()
    finally:
        crib.stop()
        process.stop()
