"""One endpoint, used by the clients that others wrote, in both eras."""

import asyncio
import json
import subprocess
import threading
import time

import httpx
import httpx2
import pytest
from fastmcp import Client as FastMcpClient
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from conftest import HERE, NODE, environment, keep, target

CURRENT, LEGACY = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": CURRENT,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def shop(toolcrib, constructs):
    """An agent with tools of an MCP server and plain REST tools behind one endpoint."""
    toolcrib.put_tool({
        "name": "whoami", "description": "Says which chat this is", "parameters": [{"name": "greeting", "description": "G"}],
        "request": {"url": f"{toolcrib.base}/healthz", "query": {"q": "{{greeting}}"}, "headers": {"X-Chat": "{{ctx.chat_id}}"}},
    })
    toolcrib.put_tool({
        "name": "health", "description": "JSON of this server", "request": {"url": f"{toolcrib.base}/openapi.json"},
        "response": {"extract": "json_path", "path": "$.info"},
    })
    toolcrib.put_agent("shop", tools_allow=["whoami", "health"], tools_allow_groups=["mcp:constructs"])
    for name in ["constructs__slow"]:
        definition = toolcrib.http.get(f"/v1/tools/{name}").json()["definition"]
        toolcrib.put_tool({**definition, "side_effect": False})
    return "shop"


def python_client(toolcrib, agent, mode, **more):
    headers = {"Authorization": f"Bearer {toolcrib.token}", "Toolcrib-Ctx-Chat-Id": "chat-py"}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return Client(streamable_http_client(toolcrib.endpoint(agent), http_client=http), mode=mode, **more)


@pytest.mark.parametrize("mode,version", [("legacy", LEGACY), ("auto", CURRENT), (CURRENT, CURRENT)])
def test_the_python_sdk_lists_calls_fails_and_cancels(toolcrib, shop, mode, version):
    async def run():
        told = []
        async with python_client(toolcrib, shop, mode) as client:
            assert client.protocol_version == version
            tools = (await client.list_tools()).tools
            names = [tool.name for tool in tools]
            assert names == sorted(names) and "constructs__shape" in names and "health" in names
            square = await client.call_tool("constructs__shape", {"item": {"kind": "square", "side": 2}})
            assert square.structured_content == {"kind": "square", "side": 2.0, "label": None}
            wrong = await client.call_tool("constructs__bounded", {"n": 4})
            assert wrong.is_error and "multiple of 3" in wrong.content[0].text
            failed = await client.call_tool("constructs__fails", {})
            assert failed.is_error and failed.content[0].text == "this tool fails on purpose"
            info = await client.call_tool("health", {})
            assert info.structured_content["title"] and not info.is_error
            with pytest.raises(Exception, match="no tool"):
                await client.call_tool("no_such_tool", {})
            with pytest.raises(Exception, match="no tool"):
                await client.call_tool("growing__grow", {})

            async def progress(done, total, message):
                told.append((done, total))

            await client.call_tool("constructs__slow", {"seconds": 0.4}, progress_callback=progress)
            with pytest.raises(Exception):
                await client.call_tool("constructs__slow", {"seconds": 20}, read_timeout_seconds=0.4)
        assert len(told) >= 3, told

    asyncio.run(asyncio.wait_for(run(), 60))
    traces = toolcrib.http.get("/v1/traces", params={"session": "chat-py", "tool": "constructs__slow"}).json()["traces"]
    assert traces, "the context of the headers is in the trace"


def test_a_call_that_is_given_up_ends(toolcrib, shop):
    """The client goes away, and the call of a read ends long before its 20 s."""
    async def run():
        async with python_client(toolcrib, shop, CURRENT) as client:
            with pytest.raises(Exception):
                await client.call_tool("constructs__slow", {"seconds": 20}, read_timeout_seconds=0.5)

    asyncio.run(asyncio.wait_for(run(), 30))
    end = time.monotonic() + 8
    while True:
        traces = toolcrib.http.get("/v1/traces", params={"tool": "constructs__slow", "status": "error"}).json()["traces"]
        details = [toolcrib.http.get(f"/v1/traces/{trace['id']}").json() for trace in traces[:5]]
        if any(trace["error"]["code"] == "call.cancelled" for trace in details):
            return
        assert time.monotonic() < end, details
        time.sleep(0.2)


@pytest.mark.parametrize("kind", ["v1", "v2-legacy", "v2-current"])
def test_the_typescript_sdks_list_call_fail_and_cancel(toolcrib, shop, kind):
    command = ["node", str(HERE / "sdk_client.mjs"), str(NODE), toolcrib.endpoint(shop), toolcrib.token, kind]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    out = json.loads(done.stdout)
    assert "constructs__shape" in out["tools"] and "no_such_tool" not in out["tools"]
    assert out["square"]["structuredContent"] == {"kind": "square", "side": 2, "label": None}
    assert out["wrong"]["isError"] and out["fails"]["isError"]
    assert out["unknown"] == "-32602" and out["cancelled"] == "cancelled" and out["cancelled_after"] < 5000
    assert len(out["progress"]) >= 3, out["progress"]


def test_fastmcps_client(toolcrib, shop):
    async def run():
        transport = StreamableHttpTransport(toolcrib.endpoint(shop), headers={"Authorization": f"Bearer {toolcrib.token}"})
        async with FastMcpClient(transport) as client:
            assert "constructs__tree" in [tool.name for tool in await client.list_tools()]
            done = await client.call_tool("constructs__pair", {"point": [1, 2]})
            assert done.structured_content["point"] == [1.0, 2.0]
            with pytest.raises(ToolError, match="fails on purpose"):
                await client.call_tool("constructs__fails", {})
            with pytest.raises(Exception):
                await client.call_tool("constructs__slow", {"seconds": 20}, timeout=0.4)
            assert (await client.call_tool("constructs__bounded", {"n": 6})).structured_content["n"] == 6

    asyncio.run(asyncio.wait_for(run(), 60))


def test_mcp_inspectors_command_line(toolcrib, shop, tmp_path):
    def inspect(*arguments):
        command = ["mcp-inspector", "--cli", toolcrib.endpoint(shop), "--transport", "http", "--header",
                   f"Authorization: Bearer {toolcrib.token}", *arguments]
        env = environment(HOME=str(tmp_path))
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=90)

    listed = inspect("--method", "tools/list")
    assert listed.returncode == 0, listed.stderr
    assert "constructs__shape" in listed.stdout
    called = inspect("--method", "tools/call", "--tool-name", "constructs__nullable", "--tool-arg", "a=4")
    assert called.returncode == 0 and '\\"a\\":4' in called.stdout.replace(" ", ""), called.stdout + called.stderr
    failed = inspect("--method", "tools/call", "--tool-name", "constructs__fails")
    assert "this tool fails on purpose" in failed.stdout + failed.stderr
    unknown = inspect("--method", "tools/call", "--tool-name", "no_such_tool")
    assert unknown.returncode != 0, unknown.stdout
    strict = inspect("--method", "tools/list", "--strict")
    keep("inspector-strict.txt", strict.stderr)
    assert strict.returncode == 0, strict.stderr


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_that_speaks_stdio_only(toolcrib, shop, mode):
    async def run():
        arguments = ["--server", toolcrib.base, "--token", toolcrib.token, "mcp", "stdio", "--agent", shop]
        server = StdioServerParameters(command=target("toolcrib"), args=arguments)
        async with Client(stdio_client(server), mode=mode) as client:
            assert "constructs__shape" in [tool.name for tool in (await client.list_tools()).tools]
            done = await client.call_tool("constructs__bounded", {"n": 9})
            assert done.structured_content == {"n": 9, "s": "a"}

    asyncio.run(asyncio.wait_for(run(), 60))


def post(toolcrib, agent, message, **headers):
    base = {"Accept": "application/json, text/event-stream"}
    return toolcrib.http.post(f"/v1/agents/{agent}/mcp", json=message, headers={**base, **headers})


def current(method, params=None, **more):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **(params or {})}, **more}


def headers(method, **more):
    return {"MCP-Protocol-Version": CURRENT, "Mcp-Method": method, **more}


def test_what_the_suite_lets_pass(toolcrib, shop):
    """Host and Origin each alone, ids, versions, batches, bodies that are no JSON, cursors."""
    evil = {"Origin": "http://evil.example.com"}
    ok = current("server/discover")
    assert post(toolcrib, shop, ok, **headers("server/discover")).status_code == 200
    assert post(toolcrib, shop, ok, **headers("server/discover"), **evil).status_code == 403
    assert post(toolcrib, shop, ok, **headers("server/discover"), Host="evil.example.com").status_code == 403
    assert post(toolcrib, shop, [ok], **headers("server/discover")).json()["error"]["code"] == -32600
    broken = toolcrib.http.post(f"/v1/agents/{shop}/mcp", content=b"{", headers={"Content-Type": "application/json"})
    assert broken.status_code == 400 and broken.json()["error"]["code"] == -32700 and "id" not in broken.json()
    wrong = post(toolcrib, shop, current("tools/list", {"cursor": "nonsense"}), **headers("tools/list"))
    assert wrong.json()["error"]["code"] == -32602
    legacy = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
    assert post(toolcrib, shop, legacy, **{"MCP-Protocol-Version": "2025-06-18"}).json()["id"] == 5
    assert post(toolcrib, shop, legacy).json()["result"]["tools"]
    assert post(toolcrib, shop, legacy, **{"MCP-Protocol-Version": "2020-01-01"}).status_code == 400
    assert post(toolcrib, shop, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    assert post(toolcrib, shop, {"jsonrpc": "2.0", "id": "nobody", "result": {}}).status_code == 202
    # No session id is handed out, and one that is sent means nothing.
    begun = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    answer = post(toolcrib, shop, begun, **{"Mcp-Session-Id": "made-up"})
    assert answer.status_code == 200 and "mcp-session-id" not in answer.headers
    assert toolcrib.http.get(f"/v1/agents/{shop}/mcp").status_code == 405


def test_who_has_no_token_is_told_where_to_look(toolcrib, shop):
    url = toolcrib.endpoint(shop)
    for given in [{}, {"Authorization": "Bearer wrong"}]:
        answer = httpx.post(url, json=current("server/discover"), headers={**headers("server/discover"), **given})
        assert answer.status_code == 401
        challenge = answer.headers["www-authenticate"]
        place = challenge.split('resource_metadata="')[1].split('"')[0]
        assert httpx.get(place).json()["resource"] == url
    bound = toolcrib.http.post("/v1/tokens", json={"name": "b", "role": "caller", "agents": ["other"]}).json()["token"]
    answer = httpx.post(url, json=current("server/discover"),
                        headers={**headers("server/discover"), "Authorization": f"Bearer {bound}"})
    assert answer.status_code == 403 and answer.json()["code"] == "auth.agent"


def test_clients_are_told_that_the_tools_changed(toolcrib, shop):
    """Both eras; a change of another agent's tools is not told."""
    told = {CURRENT: [], LEGACY: []}

    def follow(version, method, **arguments):
        auth = {"Authorization": f"Bearer {toolcrib.token}", "Accept": "application/json, text/event-stream"}
        with httpx.Client(timeout=20) as http:
            given = {**auth, **arguments.pop("headers", {})}
            with http.stream(method, toolcrib.endpoint(shop), headers=given, **arguments) as response:
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        told[version].append(json.loads(line[5:]))
                        if told[version][-1].get("method") == "notifications/tools/list_changed":
                            return

    listen = current("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    threads = [
        threading.Thread(target=follow, args=(CURRENT, "POST"), kwargs={
            "json": listen, "headers": headers("subscriptions/listen")}, daemon=True),
        threading.Thread(target=follow, args=(LEGACY, "GET"), daemon=True),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    toolcrib.put_tool({"name": "elsewhere", "description": "E", "request": {"url": "https://example.com"}})
    time.sleep(0.7)
    assert [message["method"] for message in told[CURRENT]] == ["notifications/subscriptions/acknowledged"]
    definition = toolcrib.http.get("/v1/tools/health").json()["definition"]
    toolcrib.put_tool({**definition, "description": "Another description"})
    for thread in threads:
        thread.join(timeout=10)
    assert told[LEGACY] and told[CURRENT][-1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1


def test_a_legacy_client_cancels_a_call_that_told_progress_already(toolcrib, shop):
    """By a notification, while its stream is still open."""
    call = {"jsonrpc": "2.0", "id": "slow-1", "method": "tools/call", "params": {
        "name": "constructs__slow", "arguments": {"seconds": 20}, "_meta": {"progressToken": "p"}}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow-1"}}
    auth = {"Authorization": f"Bearer {toolcrib.token}", "Accept": "application/json, text/event-stream"}
    begun = time.monotonic()
    with httpx.Client(timeout=30) as http, http.stream("POST", toolcrib.endpoint(shop), json=call, headers=auth) as response:
        told = []
        for line in response.iter_lines():
            if line.startswith("data:"):
                told.append(json.loads(line[5:]))
                if told[-1].get("method") == "notifications/progress" and len(told) == 1:
                    assert post(toolcrib, shop, cancel).status_code == 202
    assert told[-1]["id"] == "slow-1" and told[-1]["result"]["isError"], told
    assert "gave the call up" in told[-1]["result"]["content"][0]["text"] and time.monotonic() - begun < 15
