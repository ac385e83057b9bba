"""kill -9 at every move of the ledger, and at 200 random moments: no effect twice, none without a row, none stuck."""

import random
import subprocess
import threading
import time

import httpx
import pytest

from conftest import Database, Replica, an_hour_back, call, check, client, free_port, prepare, settled, states, wait_until

# The connection stands only when the call is written down: every move is a step of its own.
LATE = "ledger::connects_late"
# Where the process dies, and what may have become of the call: its states, and how often it was performed.
PLACES = [
    (f"{LATE} ledger::proposed", {"succeeded"}, {1}),
    (f"{LATE} ledger::claimed", {"succeeded"}, {1}),
    (f"{LATE} ledger::sent", {"in_doubt"}, {0}),
    ("ledger::sent", {"in_doubt"}, {0}),
    ("ledger::answered", {"in_doubt"}, {1}),
    ("ledger::settled", {"succeeded"}, {1}),
]
# The same for a call that was approved before the process died.
APPROVED = [
    ("ledger::awaiting", {"succeeded"}, {1}),
    ("ledger::taken", {"succeeded"}, {1}),
    ("ledger::claimed", {"succeeded"}, {1}),
    ("ledger::sent", {"in_doubt"}, {0}),
    ("ledger::answered", {"in_doubt"}, {1}),
    ("ledger::settled", {"succeeded"}, {1}),
]
KINDS = ["sqlite", "postgres"]


def dies(replica):
    wait_until(lambda: replica.process.poll() is not None)


@pytest.mark.parametrize("kind", KINDS)
def test_at_every_move(kind, tmp_path, effects):
    database = Database(kind, tmp_path)
    replica = Replica(database, tmp_path).start()
    token = replica.first_token()
    with client(replica.base, token) as http:
        prepare(http, effects)
    replica.stop()
    for place, expected, performed in PLACES:
        key = f"{kind}-{place.replace('ledger::', '').replace(' ', '-')}-1"
        replica.start(FAILPOINTS=";".join(f"{point}=return" for point in place.split()))
        with client(replica.base, token) as http, pytest.raises(httpx.TransportError):
            call(http, key)
        dies(replica)
        replica.start()
        found = wait_until(lambda: settled(database))
        count = effects.counts().get(key, 0)
        assert found[key] in expected and count in performed, (place, found[key], count)
        with client(replica.base, token) as http:
            again = call(http, key).json()
        assert again["status"] == ("ok" if found[key] == "succeeded" else "in_doubt"), (place, again)
        assert effects.counts().get(key, 0) == count, "asking again performs nothing"
        replica.stop()
    check(states(database), effects.counts())


@pytest.mark.parametrize("kind", KINDS)
def test_at_every_move_of_an_approved_call(kind, tmp_path, effects):
    database = Database(kind, tmp_path)
    replica = Replica(database, tmp_path).start()
    token = replica.first_token()
    with client(replica.base, token) as http:
        prepare(http, effects)
    replica.stop()
    for place, expected, performed in APPROVED:
        key = f"{kind}approved{place.split('::')[1]}-1"
        replica.start(FAILPOINTS=f"{place}=return" if place == "ledger::awaiting" else "")
        with client(replica.base, token) as http:
            try:
                call(http, key, "pay_if_approved")
            except httpx.TransportError:
                dies(replica)
        if place != "ledger::awaiting":
            replica.stop()
        [[id]] = database.rows(f"SELECT a.id FROM approvals a JOIN ledger l ON l.id = a.ledger_id WHERE l.call_id = '{key}'")
        replica.start(FAILPOINTS="" if place == "ledger::awaiting" else f"{place}=return")
        with client(replica.base, token) as http:
            try:
                assert http.post(f"/v1/approvals/{id}/approve", json={}).status_code == 200
            except httpx.TransportError:
                pass  # It died before it could say so; the decision stands all the same.
        if place != "ledger::awaiting":
            dies(replica)
            replica.start()
        found = wait_until(lambda: settled(database))
        count = effects.counts().get(key, 0)
        assert found[key] in expected and count in performed, (place, found[key], count)
        replica.stop()
    check(states(database), effects.counts())


@pytest.mark.parametrize("kind", KINDS)
def test_a_transactional_effect_happens_exactly_once(kind, tmp_path):
    database = Database(kind, tmp_path)
    replica = Replica(database, tmp_path, program_name="transactional-tool")

    def book(base, token, key):
        body = {"tool": "book_seat", "arguments": {"guest": key}, "call_id": key}
        with client(base, token) as http:
            return http.post("/v1/agents/clerk/calls", json=body)

    bookings = lambda: [guest for [guest] in database.rows("SELECT guest FROM bookings ORDER BY guest")]
    keys = []
    for place in ["ledger::proposed", "ledger::effect", "ledger::answered", "ledger::settled"]:
        key = f"guest-{place}"
        keys.append(key)
        replica.log = tmp_path / "replica.log"
        replica.log.write_text("")
        replica.start(FAILPOINTS=f"{place}=return")
        with pytest.raises(httpx.TransportError):
            book(replica.base, replica.first_token(), key)
        dies(replica)
        replica.log.write_text("")
        replica.start()
        found = wait_until(lambda: settled(database))
        assert found[key] == "succeeded", (place, found)
        again = book(replica.base, replica.first_token(), key).json()
        assert again["result"] == {"guest": key, "booked": True}, again
        replica.stop()
    assert bookings() == sorted(keys), "each once"


def nginx(folder, ports):
    """A plain nginx in front of the replicas."""
    port = free_port()
    upstream = "".join(f"server 127.0.0.1:{p} max_fails=0;" for p in ports)
    temp = "".join(f"{name}_temp_path {folder}/{name};" for name in
                   ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err; worker_processes 1;"
        f"events {{ worker_connections 512; }} http {{ access_log off; {temp}"
        f"upstream replicas {{ {upstream} }}"
        # A request that may have arrived is not given to another replica by itself.
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://replicas; proxy_next_upstream error;"
        f"proxy_set_header Host $http_host; proxy_read_timeout 60s; }} }} }}"
    )
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    return process, f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [1, 3])
def test_at_random_moments(kind, replicas, tmp_path, effects):
    """50 kills each: one replica after the other, under load, with a clock that is an hour behind on one of three."""
    kills, rng = 50, random.Random(f"{kind}{replicas}")
    database = Database(kind, tmp_path)
    # On one machine there is one clock; of three machines one is wrong.
    back = an_hour_back() if replicas > 1 and kind == "postgres" else {}
    group = [Replica(database, tmp_path, f"replica{n}", **(back if n == 1 else {})) for n in range(replicas)]
    group[0].start()
    token = group[0].first_token()
    with client(group[0].base, token) as http:
        prepare(http, effects)
    for replica in group[1:]:
        replica.start()
    proxy, base = nginx(tmp_path, [replica.port for replica in group]) if replicas > 1 else (None, group[0].base)
    prefix, answered, refused, over = f"{kind}{replicas}", [], [], threading.Event()

    def drive(worker):
        dice, n = random.Random(worker), 0
        while not over.is_set():
            n += 1
            key = f"{prefix}-{worker}-{n}"
            try:
                with client(base, token) as http:
                    answer = call(http, key, delay=dice.choice([0, 0, 0.01, 0.05]))
                    status = answer.json()["status"] if answer.status_code == 200 else None
                    if status in ("ok", "in_doubt"):
                        answered.append(key)
                    elif status == "error":
                        refused.append(key)
            except httpx.TransportError:
                time.sleep(0.01)

    workers = [threading.Thread(target=drive, args=(worker,)) for worker in range(6)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.02, 0.4))
            victim = rng.choice(group)
            victim.kill()
            victim.start()
    finally:
        over.set()
        for worker in workers:
            worker.join()
    try:
        found = wait_until(lambda: settled(database), seconds=60)
        counts = {key: n for key, n in effects.counts().items() if key.startswith(prefix + "-")}
        check(found, counts, answered, refused)
        assert len(answered) > 100, "there was a load"
        tally = {state: list(found.values()).count(state) for state in set(found.values())}
        print(f"{prefix}: {len(found)} calls, {tally}")
    finally:
        for replica in group:
            replica.stop()
        if proxy:
            proxy.terminate()
            proxy.wait()
