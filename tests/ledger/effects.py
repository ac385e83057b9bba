"""An upstream that counts every effect it performs, by key: the instrument that the claims are read from."""

import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

counts, lock = Counter(), threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            counts[body["key"]] += 1
            count = counts[body["key"]]
        time.sleep(float(body.get("delay") or 0))
        self.answer({"key": body["key"], "count": count})

    def do_GET(self):
        with lock:
            self.answer(dict(counts))

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # A client that was killed is what the tests are about.


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
