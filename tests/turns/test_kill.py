"""kill -9 at random moments of turns with three side effects: each happens at most once, every turn ends, nothing is lost."""

import random
import time

import httpx
import pytest

from conftest import Effects, Model, Server, database_url, wait_until

# A read between the effects, two effects in one batch, one after them.
TURNS = [{"steps": [
    {"text": "First I look. ", "delay_ms": 20, "calls": [{"tool": "look"}]},
    {"text": "Now I pay. ", "delay_ms": 20, "calls": [
        {"tool": "pay", "arguments": {"part": "1"}}, {"tool": "pay", "arguments": {"part": "2"}}]},
    {"delay_ms": 20, "calls": [{"tool": "pay", "arguments": {"part": "3"}}]},
    {"text": "All three are paid."},
]}]
ENDED = {"completed", "failed", "cancelled"}


@pytest.mark.parametrize("kind,kills", [("sqlite", 50), ("postgres", 20)])
def test_at_random_moments(kind, kills, tmp_path, stopping):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    url = database_url(kind, tmp_path)
    effects = Effects(tmp_path)
    stopping.append(effects)
    model = Model(tmp_path, TURNS)
    stopping.append(model)
    server = Server(tmp_path, model, url)
    stopping.append(server)
    server.put("/v1/agents/clerk", {
        "agent": {"provider": "main", "model": "script"},
        "tools": [
            {"name": "look", "description": "Looks", "request": {"url": effects.base}},
            {"name": "pay", "description": "Pays once", "timeout": 20,
             "parameters": {"type": "object", "required": ["part"], "properties": {"part": {"type": "string"}}},
             "request": {"method": "POST", "url": f"{effects.base}/pay",
                         "body": {"key": "{{ctx.chat_id}}-{{part}}", "delay": 0.03}}},
        ],
        "skills": [],
    })
    answered = {}
    for number in range(kills):
        # Half of them begin a session of their own: their rows are written while the model is asked.
        named = {"session": f"{kind}{number}"} if number % 2 else {}
        with server.http() as http:
            try:
                begun = http.post("/v1/agents/clerk/turns", json={"message": "pay", "wait": 0, **named})
                assert begun.status_code in (200, 202), begun.text
                answered[begun.json()["session"]] = begun.json()["id"]
            except httpx.TransportError:
                pass
        # A turn takes about a quarter of a second here; the earlier ones are taken up meanwhile.
        time.sleep(chance.uniform(0.0, 0.35))
        server.kill()
        server.start()

    def all_ended():
        with server.http() as http:
            turns, after = [], None
            while True:
                page = http.get("/v1/turns", params={"limit": 500, **({"after": after} if after else {})}).json()
                turns += page["turns"]
                after = page["next"]
                if not after:
                    break
        return turns if all(turn["state"] in ENDED for turn in turns) else None

    turns = wait_until(all_ended, seconds=90, every=0.5)
    counts = effects.counts()
    known = {turn["session"]: turn for turn in turns}
    for session, turn_id in answered.items():
        assert known.get(session, {}).get("id") == turn_id, f"{session} was answered and is lost"
    doubts = 0
    for session, turn in known.items():
        assert turn["state"] == "completed", turn
        assert turn["outcome"]["text"] == "All three are paid.", turn
        with server.http() as http:
            told = http.get(f"/v1/agents/clerk/sessions/{session}").json()["turns"][0]["messages"]
        results = [result for message in told if message["role"] == "tool" for result in message["results"]]
        assert [result["tool"] for result in results] == ["look", "pay", "pay", "pay"], results
        for part, result in zip("123", results[1:]):
            count = counts.get(f"{session}-{part}", 0)
            assert count <= 1, f"{session}-{part} was performed {count} times"
            if '"count":' in result["text"] and '"error"' not in result["text"]:
                assert count == 1, (session, part, result)
            else:
                doubts += 1
                assert "may have taken effect" in result["text"], result
    print(f"{kind}: {kills} kills, {len(known)} turns, {3 * len(known)} effects asked for, {doubts} in doubt, none twice")
