"""OpenAI's own clients against /v1/responses: a failing tool, an approval in the middle, a halt, and all of it streamed."""

import shutil
import subprocess
import threading

import openai
import pytest
from openai import OpenAI
from pytest_httpserver import HTTPServer

from conftest import HERE, Model, Server, node, wait_until

TURNS = [
    {"when": "halt", "steps": [
        {"text": "I look it up. ", "calls": [{"tool": "find_order", "arguments": {"number": "9"}}]},
        {"text": "That failed, so I ask for the refund. ", "calls": [{"tool": "refund", "arguments": {"order": "9"}}]},
        {"calls": [{"tool": "subscribe"}]},
        {"text": "never said"},
    ]},
    {"when": "wrong", "steps": [{"text": "x", "faults": [{"status": {"code": 400, "retry_after": None}}]}]},
    {"when": "cut", "steps": [{"text": "only the beg", "cut": True}]},
    {"steps": [{"text": "Hello there, this is the shop."}]},
]


@pytest.fixture
def shop(tmp_path, stopping):
    """A server with an agent whose tools are one that fails, one that needs approval, and one that halts."""
    upstream = HTTPServer(host="127.0.0.1")
    upstream.start()
    upstream.expect_request("/orders").respond_with_json({"reason": "no such order"}, status=404)
    upstream.expect_request("/refunds", method="POST").respond_with_json({"state": "paid"})
    upstream.expect_request("/subscribe").respond_with_json({"state": "SUBSCRIBED"})
    model = Model(tmp_path, TURNS)
    stopping.append(model)
    server = Server(tmp_path, model)
    stopping.append(server)
    base = upstream.url_for("")
    text = {"type": "object", "properties": {"number": {"type": "string"}, "order": {"type": "string"}}}
    server.put("/v1/agents/shop", {
        "agent": {"provider": "main", "model": "script", "instructions": "You are the shop."},
        "tools": [
            {"name": "find_order", "description": "Find", "parameters": text,
             "request": {"url": f"{base}/orders", "query": {"number": "{{number}}"}}},
            {"name": "refund", "description": "Refund", "parameters": text, "approval": "always",
             "request": {"method": "POST", "url": f"{base}/refunds", "body": {"order": "{{order}}"}}},
            {"name": "subscribe", "description": "Subscribe", "request": {"url": f"{base}/subscribe"},
             "halt_when": {"json_path": "state", "equals": ["SUBSCRIBED"], "say": {"text": "You are subscribed."}}},
        ],
        "skills": [],
    })
    yield server
    upstream.stop()


def approve(server):
    """A person who says yes to the first thing that is asked."""
    with server.http() as http:
        def asked():
            return http.get("/v1/approvals?state=open").json()["approvals"]
        one = wait_until(asked)[0]
        assert http.post(f"/v1/approvals/{one['id']}/approve", json={}).status_code == 200


def test_python_streams_a_turn(shop):
    client = OpenAI(base_url=f"{shop.base}/v1", api_key=shop.token)
    person = threading.Thread(target=approve, args=(shop,))
    person.start()
    events = list(client.responses.create(model="shop", input="until the halt", user="s", stream=True))
    person.join()
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == "I look it up. That failed, so I ask for the refund. You are subscribed."
    final = events[-1].response
    assert final.output_text == said and final.status == "completed"
    assert final.usage.total_tokens > 0
    own = [event.toolcrib["type"] for event in events if event.type == "keepalive"]
    for expected in ["started", "call_started", "call_finished", "parked"]:
        assert expected in own, own


def test_python_without_streaming(shop):
    client = OpenAI(base_url=f"{shop.base}/v1", api_key=shop.token)
    first = client.responses.create(model="shop", input="hello", user="s2")
    assert first.output_text == "Hello there, this is the shop." and first.status == "completed"
    second = client.responses.create(model="shop", input="again", previous_response_id=first.id)
    assert second.model_extra["toolcrib"]["session"] == "s2"
    assert client.responses.retrieve(second.id).output_text == second.output_text
    cut = client.responses.create(model="shop", input="cut")
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    failed = client.responses.create(model="shop", input="wrong")
    assert failed.status == "failed" and "HTTP 400" in failed.error.message
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="nobody", input="x")
    assert missing.value.code == "http.not_found" and "nobody" in missing.value.message
    with pytest.raises(openai.AuthenticationError):
        OpenAI(base_url=f"{shop.base}/v1", api_key="wrong").responses.create(model="shop", input="x")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="shop", input="x", tools=[{"type": "web_search"}])
    assert "the agent's tools are in its profile" in refused.value.message


def test_the_streaming_helper_of_python(shop):
    client = OpenAI(base_url=f"{shop.base}/v1", api_key=shop.token)
    with client.responses.stream(model="shop", input="hello") as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(pieces) == final.output_text == "Hello there, this is the shop."


def test_node_streams_a_turn_and_asks_without(shop):
    folder, binary = node()
    script = shutil.copy(HERE / "sdk_client.mjs", folder)
    person = threading.Thread(target=approve, args=(shop,))
    person.start()
    done = subprocess.run(
        [binary, script, f"{shop.base}/v1", shop.token], capture_output=True, text=True, timeout=60, check=False
    )
    person.join()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout
