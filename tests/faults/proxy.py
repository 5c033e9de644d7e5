"""A TCP relay on loopback between an operator and its API server, which a test makes slow, cuts or shuts."""

import random
import socket
import struct
import threading
import time


class Proxy:
    """with Proxy(port) as proxy: ... proxy.port

    `delay`: every piece that passes waits up to so many seconds."""

    def __init__(self, target):
        self.target, self.delay = target, 0.0
        self._open, self._links, self._lock = True, set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._random = random.Random(1)

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shut()
        # Wakes the thread that waits for a connection, which closing alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def shut(self):
        """Resets what is open; what comes is reset at once, until open()."""
        self._open = False
        self.cut()

    def open(self):
        self._open = True

    def cut(self):
        """Resets every connection, whatever is on its way."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            _reset(link)

    def forget(self):
        """Nothing passes any more on the connections of now, and nobody is told: as behind a firewall that
        has lost its memory."""
        with self._lock:
            self._links = set()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5) if self._open else None
            except OSError:
                server = None
            if server is None:
                _reset((client,))
                continue
            server.settimeout(None)
            link = (client, server)
            with self._lock:
                self._links.add(link)
            for source, sink in (link, link[::-1]):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._relay, args=(link, source, sink), daemon=True).start()

    def _relay(self, link, source, sink):
        try:
            while piece := source.recv(65536):
                if self.delay:
                    time.sleep(self._random.uniform(0, self.delay))
                if link in self._links:
                    sink.sendall(piece)
        except OSError:
            pass
        if link in self._links:
            self._links.discard(link)
            _reset(link)


def _reset(link):
    for end in link:
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
