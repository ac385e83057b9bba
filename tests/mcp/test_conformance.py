"""The official conformance suite, for the server and for the client, both requirement sets.

What passes there without a tool, or against a dead port, is asserted here by itself.
"""

import json
import shutil
import subprocess

import httpx
import pytest

from conftest import ARTIFACTS, HERE, NODE, Process, environment, free_port, keep, target

VERSIONS = ["2025-11-25", "2026-07-28"]
SUITE = NODE / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    port = free_port()
    process = Process([target("mcp-conformance"), "server", f"127.0.0.1:{port}"], tmp_path_factory.mktemp("suite"), "server")
    process.wait_for_port(port)
    yield f"http://127.0.0.1:{port}/v1/agents/conformance/mcp"
    process.stop()


def suite(name, *arguments):
    folder = ARTIFACTS / f"conformance-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    command = ["node", str(SUITE), *arguments, "-o", str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    keep(f"conformance-{name}.txt", done.stdout + done.stderr)
    return done, folder


def checks(folder, scenario):
    """The statuses of the checks of a scenario."""
    found = [path for path in folder.rglob("checks.json") if scenario in str(path.parent.relative_to(folder))]
    assert found, f"{scenario} did not run"
    return [check["status"] for path in found for check in json.loads(path.read_text())]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_server(endpoint, version):
    expected = HERE / "conformance" / f"server-{version}.yml"
    done, folder = suite(f"server-{version}", "server", "--url", endpoint, "--requirements", version,
                         "--expected-failures", str(expected))
    assert done.returncode == 0, done.stdout[-3000:]
    # A dead port passes some checks too; a run counts by what it really called.
    for scenario in ["tools-call-image", "tools-call-with-progress", "dns-rebinding-protection"]:
        statuses = checks(folder, scenario)
        assert "FAILURE" not in statuses and "SUCCESS" in statuses, (scenario, statuses)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_scenarios_that_pass_without_a_tool(endpoint, version):
    is_current = version == VERSIONS[1]

    def call(name, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, **params}}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
        if is_current:
            capabilities = {"elicitation": {}, "sampling": {}, "roots": {}}
            message["params"]["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
        return httpx.post(endpoint, json=message, headers=headers).json()

    text = call("test_simple_text")["result"]
    assert text["content"] == [{"type": "text", "text": "This is a simple text response for testing."}]
    assert not text.get("isError")
    failed = call("test_error_handling")["result"]
    assert failed["isError"] and failed["content"][0]["text"].startswith("This tool intentionally")
    assert call("no_such_tool")["error"]["code"] == -32602
    if not is_current:
        return
    name = "test_input_required_result_elicitation"
    asked = call(name)["result"]
    assert asked["resultType"] == "input_required" and list(asked["inputRequests"]) == ["user_name"]
    answer = {"user_name": {"action": "accept", "content": {"name": "Alice"}}}
    greeted = call(name, inputResponses={**answer, "extra": {"action": "accept"}})["result"]
    assert greeted["content"][0]["text"] == "Hello, Alice!" and greeted["resultType"] == "complete"
    assert call(name, inputResponses={"wrong": answer["user_name"]})["result"]["resultType"] == "input_required"
    assert call(name, inputResponses={"user_name": 12345})["result"]["resultType"] == "input_required"
    assert call(name, inputResponses=None)["error"]["code"] == -32602
    # A state is good for its own call only.
    state = asked["requestState"]
    assert call(name, inputResponses=answer, requestState=state)["result"]["resultType"] == "complete"
    other = call("test_input_required_result_request_state", inputResponses=answer, requestState=state)
    assert other["error"]["code"] == -32602
    assert call(name, inputResponses=answer, requestState=state + "-TAMPERED")["error"]["code"] == -32602


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client(version):
    done, folder = suite(f"client-{version}", "client", "--command", target("mcp-conformance"), "--requirements", version)
    assert done.returncode == 0, done.stdout[-3000:]
    # A client that does nothing passes these, so what was really asked is looked at.
    scenario = "initialize" if version == VERSIONS[0] else "http-standard-headers"
    statuses = checks(folder, scenario)
    assert "SUCCESS" in statuses and "FAILURE" not in statuses, statuses
