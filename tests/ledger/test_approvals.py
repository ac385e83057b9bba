"""Every way in which a person is asked and answers, walked by clients and received by servers that others wrote."""

import json
import subprocess
import threading

import httpx
import pytest
from pytest_httpserver import HTTPServer
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from conftest import Database, Replica, call, client, prepare, program, wait_until

SIGNING = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CONFIG = """
[server]
public_url = "{base}"
[approvals]
link_life = {life}
[[approvals.webhooks]]
name = "desk"
url = "{receiver}/desk"
secret = "desk_signing"
[[approvals.webhooks]]
name = "slack"
url_secret = "slack_url"
format = "slack"
"""


@pytest.fixture(scope="module")
def receiver():
    server = HTTPServer(host="127.0.0.1")
    server.start()
    yield server
    server.stop()


class Desk:
    """A server whose approvals are told to two webhooks."""

    def __init__(self, folder, receiver, effects, life=3600):
        self.receiver = receiver
        self.replica = Replica(
            Database("sqlite", folder), folder, TOOLCRIB_SECRET_APPROVAL_LINKS="0123456789abcdef0123456789abcdef", TOOLCRIB_SECRET_DESK_SIGNING=SIGNING,
            TOOLCRIB_SECRET_SLACK_URL=receiver.url_for("/services/T0/B0/s3cr3t"),
        )
        (folder / "toolcrib.toml").write_text(
            CONFIG.format(base=self.replica.base, life=life, receiver=receiver.url_for(""))
        )
        self.replica.start()
        self.token = self.replica.first_token()
        self.http = client(self.replica.base, self.token)
        prepare(self.http, effects)

    def park(self, key):
        outcome = call(self.http, key, "pay_if_approved").json()
        assert outcome["status"] == "waiting", outcome
        return outcome["approval"]["id"]

    def told(self, path, approval):
        """The request by which a webhook was told of an approval."""
        def find():
            for request, _ in self.receiver.log:
                if request.path == path and approval in request.get_data(as_text=True):
                    return request
        return wait_until(find)

    def ended(self, approval):
        return self.http.get(f"/v1/approvals/{approval}", params={"wait": "10s"}).json()

    def cli(self, *arguments):
        command = [program("toolcrib"), "--server", self.replica.base, "--token", self.token, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    def stop(self):
        self.http.close()
        self.replica.stop()


@pytest.fixture
def desk(tmp_path, receiver, effects):
    receiver.clear()
    receiver.expect_request("/desk").respond_with_data("")
    receiver.expect_request("/services/T0/B0/s3cr3t").respond_with_data("ok")
    desk = Desk(tmp_path, receiver, effects)
    yield desk
    desk.stop()


def test_a_webhook_tells_and_its_link_decides_once(desk, effects):
    approval = desk.park("linked-1")
    request = desk.told("/desk", approval)
    body = request.get_data(as_text=True)
    headers = {key.lower(): value for key, value in request.headers.items()}
    told = Webhook(SIGNING).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SIGNING).verify(body.replace("linked-1", "linked-2"), headers)
    assert (told["type"], told["data"]["id"], told["data"]["tool"]) == ("approval.requested", approval, "pay_if_approved")
    assert json.loads(told["data"]["request"]["body"])["key"] == "linked-1"
    link = told["data"]["url"]

    # A mail scanner looks, with GET and HEAD, as often as it likes: nothing is decided.
    for _ in range(3):
        page = httpx.get(link)
        assert page.status_code == 200 and "linked-1" in page.text and "Approve" in page.text
        assert "script" not in page.text and page.headers["content-security-policy"].startswith("default-src 'none'")
        httpx.head(link)
    assert desk.http.get(f"/v1/approvals/{approval}").json()["state"] == "open"
    assert "linked-1" not in effects.counts()

    # Tampered links are none.
    head, signature = link.rsplit(".", 1)
    for bad in [head.replace(approval, "0" * 32) + "." + signature, link[:-2], head + "." + signature[::-1]]:
        assert httpx.post(bad, data={"decision": "approve"}).status_code == 403, bad
    assert httpx.post(link, data={"decision": "perhaps"}).status_code == 400

    done = httpx.post(link, data={"decision": "approve", "reason": "seen & fine <b>"})
    assert done.status_code == 200 and "exactly as it was shown" in done.text
    ended = desk.ended(approval)
    assert (ended["state"], ended["decided_by"], ended["outcome"]["status"]) == ("approved", "link for desk", "ok")
    replayed = httpx.post(link, data={"decision": "deny"})
    assert replayed.status_code == 409 and "link for desk was first" in replayed.text
    assert "Already decided" in httpx.get(link).text
    assert effects.counts()["linked-1"] == 1


def test_slack_gets_blocks_and_its_address_is_told_nobody(desk):
    approval = desk.park("slack-1")
    told = json.loads(desk.told("/services/T0/B0/s3cr3t", approval).get_data(as_text=True))
    assert "pay_if_approved" in told["text"]
    assert [block["type"] for block in told["blocks"]] == ["header", "section", "section", "actions"]
    assert told["blocks"][3]["elements"][0]["url"].startswith(desk.replica.base)
    assert "s3cr3t" not in desk.replica.log.read_text()
    for path in ["/v1/doctor", "/v1/approvals", f"/v1/approvals/{approval}"]:
        assert "s3cr3t" not in desk.http.get(path).text


def test_a_webhook_that_fails_is_kept_until_it_is_told(tmp_path, receiver, effects):
    receiver.clear()
    receiver.expect_ordered_request("/desk").respond_with_data("later", status=503)
    receiver.expect_request("/services/T0/B0/s3cr3t").respond_with_data("ok")
    desk = Desk(tmp_path, receiver, effects)
    try:
        approval = desk.park("again-1")
        desk.told("/desk", approval)
        # It is kept until it was told; a decision makes it moot.
        rows = wait_until(lambda: desk.replica.database.rows("SELECT webhook, tries FROM approval_notices"))
        assert rows == [["desk", "1"]]
    finally:
        desk.stop()


def test_an_old_link_is_no_good(tmp_path, receiver, effects):
    receiver.clear()
    receiver.expect_request("/desk").respond_with_data("")
    receiver.expect_request("/services/T0/B0/s3cr3t").respond_with_data("ok")
    desk = Desk(tmp_path, receiver, effects, life=1)
    try:
        approval = desk.park("old-1")
        link = desk.http.post(f"/v1/approvals/{approval}/link", json={"for": "ann"}).json()["url"]
        old = wait_until(lambda: (page := httpx.post(link, data={"decision": "maybe"})).status_code == 403 and page)
        assert "too old" in old.text
        assert httpx.post(link, data={"decision": "approve"}).status_code == 403
        assert desk.http.get(f"/v1/approvals/{approval}").json()["state"] == "open"
    finally:
        desk.stop()


def test_the_command_line_lists_shows_and_decides(desk, effects):
    first, second = desk.park("cli-1"), desk.park("cli-2")
    listed = desk.cli("approvals", "list").stdout
    assert first in listed and second in listed and "pay_if_approved" in listed
    shown = desk.cli("approvals", "show", first).stdout
    assert "cli-1" in shown and "needs a person's approval" in shown
    assert "approved" in desk.cli("approvals", "approve", first, "--reason", "ok").stdout
    assert "denied" in desk.cli("approvals", "deny", second, "--reason", "he was paid").stdout
    late = desk.cli("approvals", "approve", second)
    assert late.returncode == 1 and "was first" in late.stderr
    assert desk.ended(first)["outcome"]["status"] == "ok"
    assert "he was paid" in desk.ended(second)["outcome"]["result"]["error"]
    ledger_id = desk.ended(first)["ledger_id"]
    call_shown = json.loads(desk.cli("calls", "show", ledger_id).stdout)
    assert [event["to"] for event in call_shown["events"]] == ["awaiting", "ready", "claimed", "sent", "succeeded"]
    assert ledger_id in desk.cli("calls", "list", "--state", "succeeded").stdout
    assert desk.cli("approvals", "link", first, "--for", "ann").stdout.startswith(desk.replica.base)
    assert (effects.counts()["cli-1"], effects.counts().get("cli-2")) == (1, None)


def test_events_tell_of_approvals(desk):
    seen, ready = [], threading.Event()

    def follow():
        with httpx.stream("GET", f"{desk.replica.base}/v1/events", headers={"Authorization": f"Bearer {desk.token}"},
                          timeout=20) as stream:
            ready.set()
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    seen.append(line.removeprefix("event: "))
                if "approval_decided" in seen:
                    return

    listener = threading.Thread(target=follow)
    listener.start()
    assert ready.wait(10)
    approval = desk.park("event-1")
    wait_until(lambda: "approval_requested" in seen)
    desk.http.post(f"/v1/approvals/{approval}/deny", json={})
    listener.join(timeout=15)
    assert seen.index("approval_requested") < seen.index("approval_decided")


def test_a_question_is_answered(desk):
    assert desk.http.put("/v1/agents/curious", json={"tools_allow": ["ask_question"]}).status_code == 201
    body = {"tool": "ask_question", "arguments": {"question": "How many are left?", "answer_type": "number"}}
    waiting = desk.http.post("/v1/agents/curious/calls", json=body).json()
    assert (waiting["status"], waiting["code"]) == ("waiting", "call.question")
    id = waiting["approval"]["id"]
    answered = []
    waiter = threading.Thread(target=lambda: answered.append(
        client(desk.replica.base, desk.token).get(f"/v1/approvals/{id}", params={"wait": "20s"}).json()))
    waiter.start()
    refused = desk.cli("approvals", "answer", id, "a few")
    assert refused.returncode == 1 and "the answer is a number" in refused.stderr
    assert desk.cli("approvals", "answer", id, "7").returncode == 0
    waiter.join(timeout=20)
    assert answered[0]["outcome"]["result"] == {"answer": 7}


def test_a_question_is_answered_on_its_page(desk):
    assert desk.http.put("/v1/agents/curious", json={"tools_allow": ["ask_question"]}).status_code == 201
    body = {"tool": "ask_question", "arguments": {"question": "How many are left?", "answer_type": "number"}}
    id = desk.http.post("/v1/agents/curious/calls", json=body).json()["approval"]["id"]
    link = desk.http.post(f"/v1/approvals/{id}/link", json={"for": "ann"}).json()["url"]
    assert "How many are left?" in httpx.get(link).text
    assert httpx.post(link, data={"reason": "none"}).status_code == 400
    assert "the answer is a number" in httpx.post(link, data={"decision": "answer", "answer": "some"}).text
    assert httpx.post(link, data={"decision": "answer", "answer": "7"}).status_code == 200
    assert desk.ended(id)["outcome"]["result"] == {"answer": 7}
