"""kill -9 in the middle of imports and calls: nothing that was acknowledged is lost."""

import sqlite3
import threading

import httpx

from conftest import Server


def test_acknowledged_writes_survive_kill_9(tmp_path, httpbin):
    server = Server(tmp_path)
    assert server.http.put("/v1/agents/all", json={}).status_code == 201
    acknowledged, stopped = [], threading.Event()

    def imports(worker):
        with httpx.Client(base_url=server.base, headers=dict(server.http.headers), timeout=10) as http:
            for round in range(100):
                names = [f"w{worker}_r{round}_{i}" for i in range(5)]
                tools = [{"name": n, "description": n, "url": f"{httpbin}/get"} for n in names]
                try:
                    answer = http.post("/v1/tools/manifest", json={"tools": tools})
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    acknowledged.extend(answer.json()["created"])
                    if len(acknowledged) > 250:
                        stopped.set()

    def calls():
        with httpx.Client(base_url=server.base, headers=dict(server.http.headers), timeout=10) as http:
            while not stopped.is_set():
                try:
                    http.post("/v1/agents/all/calls", json={"tool": acknowledged[-1] if acknowledged else "none"})
                except httpx.TransportError:
                    return

    threads = [threading.Thread(target=imports, args=(worker,)) for worker in range(2)]
    threads += [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert stopped.wait(60), "enough was written"
    server.kill()
    for thread in threads:
        thread.join()

    again = Server(tmp_path, token=server.token)
    try:
        found, after = set(), None
        while True:
            page = again.http.get("/v1/tools", params={"limit": 500, **({"after": after} if after else {})}).json()
            found |= {tool["name"] for tool in page["tools"]}
            after = page["next"]
            if not after:
                break
        lost = set(acknowledged) - found
        assert len(acknowledged) > 250 and not lost, lost
        assert again.http.get("/v1/doctor").json()["healthy"]
    finally:
        again.stop()
    with sqlite3.connect(tmp_path / "toolcrib.db") as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_graceful_end_lets_calls_end(tmp_path, httpbin):
    server = Server(tmp_path)
    tool = {"name": "slow", "description": "slow", "request": {"method": "POST", "url": f"{httpbin}/delay/1"}}
    assert server.http.put("/v1/tools/slow", json=tool).status_code == 201
    assert server.http.put("/v1/agents/all", json={}).status_code == 201
    outcomes, auth = [], dict(server.http.headers)

    def call():
        with httpx.Client(base_url=server.base, headers=auth, timeout=60) as http:
            outcomes.append(http.post("/v1/agents/all/calls", json={"tool": "slow"}).json())

    thread = threading.Thread(target=call)
    thread.start()
    while "toolcrib_calls_in_flight 1" not in server.http.get("/metrics").text:
        assert thread.is_alive()
    server.stop()
    thread.join()
    assert outcomes[0]["status"] == "ok"
    assert server.process.returncode == 0
    with sqlite3.connect(tmp_path / "toolcrib.db") as db:
        assert db.execute("select status from traces").fetchall() == [("ok",)]
