"""Calls through the REST API to servers that others wrote."""

import pytest

from conftest import SECRET


def ok(server, tool, arguments=None, agent="all", **more):
    outcome = server.call(agent, tool, arguments, **more)
    assert outcome["status"] == "ok", outcome
    return outcome["result"]


def json_of(text):
    import json

    return json.loads(text)


def test_query_and_headers_arrive_as_written(tools):
    got = json_of(ok(tools, "echo_get", {"q": "red & blue? #1 é"}, ctx={"chat_id": "c-1"}))
    assert got["args"] == {"q": "red & blue? #1 é", "fixed": "a b"}
    assert got["headers"]["X-Chat"] == "c-1"


def test_json_bodies_are_typed(tools):
    got = json_of(ok(tools, "echo_post_json", {"n": 2.5, "list": ["a", 'b "c"']}, ctx={"chat_id": "c-1"}))
    assert got["json"] == {"n": 2.5, "list": ["a", 'b "c"'], "chat": "c-1", "all": {"n": 2.5, "list": ["a", 'b "c"']}}
    assert got["headers"]["Content-Type"] == "application/json"
    absent = json_of(ok(tools, "echo_post_json", {"n": "7.10"}))
    assert absent["json"]["n"] == "7.10" and "list" not in absent["json"] and "chat" not in absent["json"]


def test_numbers_keep_their_text_on_the_wire(tools):
    body = b'{"tool": "echo_post_json", "arguments": {"n": 1.50E2}}'
    answer = tools.http.post("/v1/agents/all/calls", content=body, headers={"Content-Type": "application/json"}).json()
    assert '"n":1.50E2' in json_of(answer["result"])["data"]


@pytest.mark.parametrize("tool", ["echo_post_text", "echo_post_form", "echo_json_text", "echo_put", "echo_patch"])
def test_other_bodies(tools, tool):
    q = 'x","admin":true,"y":"&z=1'
    got = json_of(ok(tools, tool, {"q": q}))
    if tool == "echo_post_text":
        assert got["data"] == f"Hello {q}"
    elif tool == "echo_post_form":
        assert got["form"] == {"q": q, "mode": "fast"}
    else:
        assert got["json"]["q"] == q and "admin" not in got["json"]


def test_the_idempotency_key_is_of_session_and_call(tools):
    def key(**more):
        return json_of(ok(tools, "echo_delete", **more))["headers"]["Idempotency-Key"]

    first = key(call_id="refund-17")
    assert first.startswith("toolcrib-") and "refund-17" not in first
    assert key(call_id="refund-17") == first, "the same call, whose recorded result is returned"
    others = {key(call_id="refund-18"), key(call_id="refund-17", ctx={"chat_id": "c-2"})}
    assert len(others | {first}) == 3


def test_paths_are_escaped(tools):
    assert ok(tools, "echo_path", {"item": "red shoe"}).endswith("/anything/items/red%20shoe/stock")
    for bad in ["..", ".", ""]:
        outcome = tools.call("all", "echo_path", {"item": bad})
        assert outcome["status"] == "error" and "error" in outcome["result"]
    assert "?" not in tools.trace(tools.call("all", "echo_path", {"item": "a/../b?x=1"}))["request"]["url"]


def test_statuses(tools):
    assert ok(tools, "status_of", {"code": 404}) == {"status": 404}
    assert ok(tools, "head_only") == {"status": 200}
    outcome = tools.call("all", "status_error", {"code": 418})
    assert outcome["status"] == "error" and outcome["result"]["error"].startswith("HTTP 418: ")
    trace = tools.trace(tools.call("all", "status_error", {"code": 503}))
    assert trace["sends"] == 3, "a read is sent again after 503"


def test_a_redirect_is_named_and_not_followed(tools):
    outcome = tools.call("all", "redirects")
    assert outcome["result"] == {"error": "HTTP 302: moved to http://169.254.169.254/latest"}


def test_timeouts(tools):
    slow = tools.call("all", "slow")
    assert slow["status"] == "error" and "took longer" in slow["result"]["error"]
    effect = tools.call("all", "slow_effect")
    assert effect["status"] == "in_doubt" and "don't repeat it blindly" in effect["result"]["error"]
    assert tools.trace(effect)["sends"] == 1


def test_compressed_bodies(tools):
    assert ok(tools, "gzipped") is True
    assert ok(tools, "brotli") is True
    outcome = tools.call("all", "deflated")
    assert outcome["status"] == "error" and "compressed" in outcome["result"]["error"]
    assert ok(tools, "large") == {"status": 200}


def test_cookies_are_the_callers_only(tools):
    assert ok(tools, "cookies", {"flavour": "oat"}) == "oat"
    assert tools.call("all", "set_cookie")["result"]["error"].startswith("HTTP 302")
    assert ok(tools, "cookies", {"flavour": "rye"}) == "rye", "no cookie is kept between calls"


def test_html_and_jsonpath(tools):
    assert "Herman Melville" in ok(tools, "html_page")
    assert ok(tools, "slideshow_titles") == "Wake up to WonderWidgets!"


def test_a_secret_arrives_and_never_comes_back(tools):
    assert ok(tools, "bearer") is True
    outcome = tools.call("all", "echo_secret")
    assert json_of(outcome["result"])["headers"]["Authorization"] == "Bearer ***"
    seen = str(outcome) + str(tools.trace(outcome)) + tools.http.get("/metrics").text
    assert SECRET not in seen
    for file in tools.folder.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file


def test_a_real_json_api(tools):
    rows = ok(tools, "list_products", {"limit": 3}, agent="shop")
    assert [row["sku"] for row in rows] == ["K0", "K1", "K10"]
    assert ok(tools, "find_product", {"sku": "K7"}, agent="shop") == "Kettle 7"
    assert ok(tools, "count_products", agent="shop") == 40
    assert ok(tools, "cheap_products", {"price": "12"}, agent="shop") == "K0"
    missing = tools.call("shop", "find_product", {"sku": "' or 1=1 --"})
    assert missing["result"] == {"error": "path '$.rows[0].name' not found in the response"}


def test_a_halt_ends_the_batch(tools):
    calls = [{"tool": "order_state", "arguments": {"order": n}} for n in (1, 2, 3)]
    outcomes = tools.http.post("/v1/agents/shop/calls", json={"calls": calls}).json()["outcomes"]
    assert [outcome["status"] for outcome in outcomes] == ["ok", "halted", "skipped"]
    assert outcomes[1]["halt"] == {"say": "It is on its way."}


def test_an_agent_may_use_its_tools_only(tools):
    assert tools.call("shop", "echo_get", {"q": "x"})["status"] == "denied"


def test_traces_can_be_read_by_session(tools):
    ok(tools, "echo_get", {"q": "1"}, ctx={"chat_id": "session-7"})
    tools.call("all", "echo_get", {"q": ["no"]}, ctx={"chat_id": "session-7"})
    traces = tools.http.get("/v1/traces", params={"session": "session-7"}).json()["traces"]
    assert [trace["status"] for trace in traces] == ["error", "ok"]
