"""Ports, waits and answers of servers on this machine."""

import socket
import time

import httpx


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


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
