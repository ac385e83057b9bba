"""The command line against a server, and in process on a file."""

import json
import os
import subprocess

from conftest import binary


def run(*arguments, folder, ok=True, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")} | environment
    done = subprocess.run([binary(), *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done


def test_in_process_on_a_file(tmp_path, httpbin):
    tool = {"name": "echo", "description": "Echo", "parameters": [{"name": "q"}], "request": {"url": f"{httpbin}/get", "query": {"q": "{{q}}"}}}
    (tmp_path / "tool.json").write_text(json.dumps(tool))
    (tmp_path / "agent.json").write_text("{}")
    egress = {"TOOLCRIB_EGRESS_ALLOW_HTTP": "1", "TOOLCRIB_EGRESS_ALLOW_PRIVATE": "1"}
    assert "there is no database" in run("tools", "list", folder=tmp_path, ok=False).stderr
    assert run("tools", "validate", "tool.json", folder=tmp_path).stdout.strip() == "valid"
    assert not (tmp_path / "toolcrib.db").exists()
    run("migrate", folder=tmp_path)
    assert "egress.scheme" in run("tools", "put", "tool.json", folder=tmp_path).stderr
    run("agents", "put", "a", "agent.json", folder=tmp_path)
    assert "echo" in run("tools", "list", folder=tmp_path).stdout
    assert json.loads(run("tools", "search", "echo", "--json", folder=tmp_path).stdout)["tools"][0]["name"] == "echo"
    shown = run("tools", "try", "echo", '{"q": "a b"}', "--dry-run", folder=tmp_path, **egress).stdout
    assert shown.startswith(f"GET {httpbin}/get?q=a%20b")
    called = run("call", "a", "echo", '{"q": "1"}', "--ctx", "chat_id=c", "--json", folder=tmp_path, **egress)
    assert json.loads(called.stdout)["status"] == "ok"
    assert "echo" in run("traces", "list", "--session", "c", folder=tmp_path).stdout
    assert "blocked" in run("call", "a", "echo", '{"q": "1"}', folder=tmp_path, ok=False).stdout
    assert run("doctor", folder=tmp_path).stdout
    run("tools", "rm", "echo", folder=tmp_path)
    run("tools", "restore", "echo", "1", folder=tmp_path)
    assert "| " not in run("tools", "versions", "echo", folder=tmp_path).stdout


def test_against_a_server(tmp_path, server):
    remote = {"TOOLCRIB_SERVER": server.base, "TOOLCRIB_TOKEN": server.token}
    created = run("tokens", "create", "bot", "--role", "auditor", folder=tmp_path, **remote)
    token = created.stdout.strip()
    assert token.startswith("tcr_")
    bound = {"TOOLCRIB_SERVER": server.base, "TOOLCRIB_TOKEN": token}
    assert "auth.forbidden" in run("tokens", "list", folder=tmp_path, ok=False, **bound).stderr
    assert "auth.missing" in run("tools", "list", folder=tmp_path, ok=False, TOOLCRIB_SERVER=server.base).stderr
    assert "no server answers" in run("tools", "list", folder=tmp_path, ok=False, TOOLCRIB_SERVER="http://127.0.0.1:9").stderr


def test_configuration(tmp_path):
    (tmp_path / "toolcrib.toml").write_text('[server]\nbind = "127.0.0.1:9999"\n')
    shown = run("config", "show", "--db", "x.db", "--json", folder=tmp_path, TOOLCRIB_LOG__FILTER="debug").stdout
    origins = {entry["key"]: (entry["value"], entry["origin"]) for entry in json.loads(shown)["config"]}
    assert origins["server.bind"][0] == "127.0.0.1:9999" and origins["server.bind"][1].endswith("toolcrib.toml")
    assert origins["log.filter"][0] == "debug" and "environment" in origins["log.filter"][1]
    assert origins["store.path"] == ("x.db", "flag")
    assert origins["server.drain"] == (60, "default")
    bad = {"TOOLCRIB_SERVER__BIND": "0.0.0.0:80", "TOOLCRIB_EGRESS__DENY_CIDRS": "x", "TOOLCRIB_TRACES__DAYS": "many", "TOOLCRIB_LOG__FORMAT": "xml"}
    said = run("config", "show", folder=tmp_path, ok=False, **bad).stderr
    for part in ["allow_plain_http", "egress.deny_cidrs", "DAYS", "log.format"]:
        assert part in said, said


def test_quickstart(tmp_path):
    tour = run("quickstart", "--exit", folder=tmp_path).stdout
    for part in ["Red kettle", "expected integer", "egress.metadata_address", "A colleague takes over"]:
        assert part in tour, tour
    steps = json.loads(run("quickstart", "--exit", "--json", folder=tmp_path).stdout)["steps"]
    assert [step.get("outcome", {}).get("status") for step in steps] == [None, None, "ok", "error", "error", "halted"]


def test_completions(tmp_path):
    for shell in ["bash", "zsh", "fish"]:
        assert "toolcrib" in run("completions", shell, folder=tmp_path).stdout


def test_configuration_is_read_here_and_said_once(tmp_path):
    """A file in a folder above is nobody's; an empty variable takes nothing of another away."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "toolcrib.toml").write_text("[egress]\nallow_private = true\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TOOLCRIB_")}

    def show(**variables):
        env = {**clean, **variables}
        return subprocess.run(
            [binary(), "config", "show"], cwd=inner, env=env, capture_output=True, text=True, timeout=60
        )

    shown = show()
    assert shown.returncode == 0, shown.stderr
    line = next(line for line in shown.stdout.splitlines() if "allow_private" in line)
    assert "false" in line and "default" in line

    both = show(TOOLCRIB_EGRESS_HOSTS="", TOOLCRIB_EGRESS__HOSTS="api.example.com")
    assert "api.example.com" in both.stdout, both.stderr
    twice = show(TOOLCRIB_EGRESS_HOSTS="a.example", TOOLCRIB_EGRESS__HOSTS="b.example")
    assert twice.returncode != 0 and "keep one" in twice.stderr

    (inner / "toolcrib.toml").write_text("[egress\n")
    broken = show()
    assert broken.returncode != 0 and broken.stderr.count("toolcrib.toml") == 1, broken.stderr
