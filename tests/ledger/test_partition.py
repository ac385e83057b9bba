"""A replica that is cut from the database while it holds calls, and comes back: the epoch fences it."""

import threading
import time
from urllib.parse import urlsplit

import httpx

from conftest import Database, Replica, call, check, client, prepare, settled, states, wait_until
from cut import Cut

SECONDS = 60


def test_a_replica_that_is_cut_off_fires_nothing_twice(tmp_path, effects):
    database = Database("postgres", tmp_path)
    target = urlsplit(database.url)
    network = Cut(target.hostname, target.port)
    far = database.url.replace(f":{target.port}", f":{network.port}")
    # Nothing is lost on the way out: only the database can't be reached.
    cut_off, near = Replica(database, tmp_path, "cut-off", url=far), Replica(database, tmp_path, "near")
    cut_off.start()
    token = cut_off.first_token()
    with client(cut_off.base, token) as http:
        prepare(http, effects)
    near.start()
    answered, refused, over = [], [], threading.Event()
    # Those that were asked for when the network was cut already.
    began_cut = set()

    def drive(worker):
        n = 0
        while not over.is_set():
            n += 1
            key = f"cut-{worker}-{n}"
            if network.is_cut:
                began_cut.add(key)
            try:
                with client(cut_off.base, token) as http:
                    answer = call(http, key, delay=0.3)
                    status = answer.json()["status"] if answer.status_code == 200 else None
                    if status in ("ok", "in_doubt"):
                        answered.append(key)
                    elif status == "error":
                        refused.append(key)
            except httpx.TransportError:
                pass

    workers = [threading.Thread(target=drive, args=(worker,)) for worker in range(12)]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: len(answered) > 50)
        network.cut()
        # The other replica takes over what the one that is gone had in hand.
        wait_until(lambda: "in_doubt" in states(database).values())
        time.sleep(SECONDS)
        # What began before may have been written down in the moment of the cut.
        succeeded = {key for key, state in states(database).items() if state == "succeeded"}
        assert began_cut and not began_cut & succeeded
        network.mend()
        back = len(answered)
        wait_until(lambda: len(answered) > back + 20, seconds=60)
    except BaseException:
        cut_off.stop()
        near.stop()
        raise
    finally:
        network.mend()
        over.set()
        for worker in workers:
            worker.join()
    try:
        found = wait_until(lambda: settled(database), seconds=60)
        counts = {key: n for key, n in effects.counts().items() if key.startswith("cut-")}
        check(found, counts, refused=refused)
        tally = {state: list(found.values()).count(state) for state in set(found.values())}
        print(f"cut off for {SECONDS} s: {len(found)} calls, {tally}, {len(refused)} refused")
        # What was sent before the cut ended late, and the late answer settled it.
        late = database.rows("SELECT COUNT(*) FROM ledger_events WHERE from_state = 'in_doubt' AND to_state = 'succeeded'")
        print(f"settled by a late answer: {late[0][0]}")
    finally:
        cut_off.stop()
        near.stop()
