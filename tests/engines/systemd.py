"""A node's systemd on its system bus, as far as the toolkit asks it: one unit, and how that is restarted.

The bus is in it. D-Bus is written here, so that neither a daemon nor a package of Python's is needed.
"""

import os
import socketserver
import struct
import threading

_CALL, _ANSWER, _ERROR, _SIGNAL = 1, 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _ANSWER_TO, _SENDER, _SIGNATURE = 1, 2, 3, 4, 5, 7, 8
_KINDS = {_PATH: "o", _INTERFACE: "s", _MEMBER: "s", _ERROR_NAME: "s", _ANSWER_TO: "u", _SENDER: "s", _SIGNATURE: "g"}
_MANAGER = "/org/freedesktop/systemd1"
_JOB = f"{_MANAGER}/job/1"


def _pad(data, width):
    return data + bytes(-len(data) % width)


def _value(data, kind, value):
    """Appends a value of one of the types that are used here: u, s, o, g."""
    if kind == "u":
        return _pad(data, 4) + struct.pack("<I", value)
    text = value.encode()
    if kind == "g":
        return data + bytes([len(text)]) + text + b"\0"
    return _pad(data, 4) + struct.pack("<I", len(text)) + text + b"\0"


def _message(kind, fields, signature="", *values):
    body = b""
    for one, value in zip(signature, values, strict=True):
        body = _value(body, one, value)
    listed = b""
    for code, value in {**fields, **({_SIGNATURE: signature} if signature else {})}.items():
        listed = _pad(listed, 8) + bytes([code])
        listed = _value(_value(listed, "g", _KINDS[code]), _KINDS[code], value)
    head = struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), 1, len(listed))
    return _pad(head + listed, 8) + body


def _read_value(data, at, kind):
    if kind == "g":
        return data[at + 1:at + 1 + data[at]].decode(), at + 2 + data[at]
    at += -at % 4
    number = struct.unpack_from("<I", data, at)[0]
    if kind == "u":
        return number, at + 4
    return data[at + 4:at + 4 + number].decode(), at + 5 + number


class _Connection(socketserver.StreamRequestHandler):
    def handle(self):
        self._authenticate()
        while True:
            head = self.rfile.read(16)
            if len(head) < 16:
                return
            kind, _, length, serial, listed = struct.unpack("<xBBxIII", head)
            fields = self._fields(self.rfile.read(listed + -listed % 8)[:listed])
            body = self.rfile.read(length)
            if kind == _CALL:
                self._answer(serial, fields.get(_MEMBER), body)

    def _authenticate(self):
        """Lines of text, until the client begins."""
        while True:
            line = self.rfile.readline().lstrip(b"\0").split()
            if not line or line[0] == b"BEGIN":
                return
            self.wfile.write({b"AUTH": b"DATA\r\n", b"DATA": b"OK 0123456789abcdef0123456789abcdef\r\n"}.get(
                line[0], b"ERROR\r\n"))

    def _fields(self, listed):
        found, at = {}, 0
        while at < len(listed):
            at += -at % 8
            code = listed[at]
            kind, at = _read_value(listed, at + 1, "g")
            found[code], at = _read_value(listed, at, kind)
        return found

    def _send(self, kind, fields, *content):
        self.wfile.write(_message(kind, {**fields, _SENDER: "org.freedesktop.systemd1"}, *content))

    def _answer(self, serial, member, body):
        answer_to = {_ANSWER_TO: serial}
        if member in ("AddMatch", "RemoveMatch", "Subscribe"):
            self._send(_ANSWER, answer_to)
        elif member == "Hello":
            self._send(_ANSWER, answer_to, "s", ":1.1")
        elif member == "RestartUnit" and _read_value(body, 0, "s")[0] == self.server.unit:
            self._send(_ANSWER, answer_to, "o", _JOB)
            try:
                self.server.restart()
                result = "done"
            except AssertionError as problem:
                print(f"{self.server.unit} was not restarted: {problem}")
                result = "failed"
            self._send(_SIGNAL, {_PATH: _MANAGER, _INTERFACE: "org.freedesktop.systemd1.Manager",
                                 _MEMBER: "JobRemoved"}, "uoss", 1, _JOB, self.server.unit, result)
        else:
            self._send(_ERROR, {**answer_to, _ERROR_NAME: "org.freedesktop.DBus.Error.UnknownMethod"}, "s",
                       f"{member} is not known to systemd of a test, or not for this unit")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    unit = restart = None


class Systemd:
    """Listens at `path` until it is closed. `restart` returns when the unit is up again."""

    def __init__(self, path, unit, restart):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.restarts = 0
        self._restart = restart
        self._server = _Server(path, _Connection)
        self._server.unit, self._server.restart = unit, self._counted
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _counted(self):
        self.restarts += 1
        self._restart()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
