"""Ports, waits and answers of servers on this machine."""

import random
import socket
import time

import httpx


#: Below the ports that the system gives to outgoing connections: those may take one between its choice and its use.
PORTS = range(15_000, 30_000)
given = set()


def free_port():
    """A port that nobody has, and that is given once."""
    while True:
        port = random.choice(PORTS)
        if port in given:
            continue
        given.add(port)
        try:
            # Some servers listen on every address.
            socket.create_server(("", port)).close()
            return port
        except OSError:
            continue


def wait_until(what, seconds=30, every=0.02):
    """Waits until a function gives something true, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"{what} did not come true in {seconds} s")


def answers(url):
    try:
        return httpx.get(url, timeout=1).status_code < 500
    except httpx.TransportError:
        return False
