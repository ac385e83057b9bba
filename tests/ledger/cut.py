"""A TCP proxy that can be cut: nothing passes, and no side is told, as on a network that is gone."""

import socket
import threading


class Cut:
    def __init__(self, host, port):
        self.target = (host, port)
        self.passing = threading.Event()
        self.passing.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            self.passing.wait()
            outer = socket.create_connection(self.target)
            for pair in [(inner, outer), (outer, inner)]:
                threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source, target):
        try:
            while data := source.recv(65536):
                self.passing.wait()
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def is_cut(self):
        return not self.passing.is_set()

    def cut(self):
        self.passing.clear()

    def mend(self):
        self.passing.set()
