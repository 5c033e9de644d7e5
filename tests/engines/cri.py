"""The kubelet's side of the Container Runtime Interface (runtime.v1), as far as containers are started by it.

One connection a call: HTTP/2 and protobuf are written here, so that no package of Python's is needed. Only the decoding of
compressed headers is nghttp2's, which the product has anyway.
"""

import ctypes
import socket
import struct

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _CONTINUATION = 0, 1, 3, 4, 6, 7, 9
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WINDOW = 1 << 24
RUNNING = 1  # ContainerState

# Namespaces of a pod, as most pods have them but for the network: that is the node's, and each container has processes of
# its own.
_NAMESPACES = {1: 2, 2: 1}

_nghttp2 = ctypes.CDLL("libnghttp2.so.14")


class CriError(Exception):
    """The engine refused a call, or nobody answers."""


class _Pair(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_uint8)), ("value", ctypes.POINTER(ctypes.c_uint8)),
                ("name_length", ctypes.c_size_t), ("value_length", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class _Headers:
    """Decodes the header blocks of one connection."""

    def __init__(self):
        self._inflater = ctypes.c_void_p()
        _nghttp2.nghttp2_hd_inflate_new(ctypes.byref(self._inflater))

    def close(self):
        _nghttp2.nghttp2_hd_inflate_del(self._inflater)

    def decode(self, block):
        found, at = {}, 0
        _nghttp2.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        buffer = ctypes.create_string_buffer(block, len(block))
        while True:
            pair, flags = _Pair(), ctypes.c_int(0)
            used = _nghttp2.nghttp2_hd_inflate_hd2(
                self._inflater, ctypes.byref(pair), ctypes.byref(flags), ctypes.byref(buffer, at),
                ctypes.c_size_t(len(block) - at), 1)
            if used < 0:
                raise CriError(f"headers that cannot be decoded ({used})")
            at += used
            if flags.value & 2:  # a pair
                found[ctypes.string_at(pair.name, pair.name_length).decode()] = ctypes.string_at(
                    pair.value, pair.value_length).decode(errors="replace")
            if flags.value & 1 or (used == 0 and not flags.value & 2):
                _nghttp2.nghttp2_hd_inflate_end_headers(self._inflater)
                return found


def _varint(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(message):
    """A message as {field number: value}: str, int, bool, a message, or a list of them."""
    out = b""
    for number, value in message.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += _varint(number << 3) + _varint(int(one))
                continue
            content = encode(one) if isinstance(one, dict) else one.encode()
            out += _varint(number << 3 | 2) + _varint(len(content)) + content
    return out


def _map(values):
    return [{1: key, 2: value} for key, value in values.items()]


def decode(data):
    """{field number: [values]}; what has a length stays bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return number
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(key & 7)
            length = varint() if length is None else length
            value = data[at:at + length]
            at += length
        found.setdefault(key >> 3, []).append(value)
    return found


def _frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(name, value):
    return b"\x10" + bytes([len(name)]) + name.encode() + _length(value) + value.encode()


def _length(value):
    """HPACK's integer with a prefix of seven bits."""
    if len(value) < 127:
        return bytes([len(value)])
    return b"\x7f" + _varint(len(value) - 127)


class Cri:
    """Calls go to the socket at `path`, as this process sees it."""

    def __init__(self, path, seconds=120):
        self._path, self._seconds = path, seconds

    def call(self, method, request, service="RuntimeService"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(self._seconds)
            try:
                connection.connect(self._path)
                return self._exchange(connection, f"/runtime.v1.{service}/{method}", encode(request))
            except OSError as problem:
                raise CriError(f"{method}: {problem}") from problem

    def _exchange(self, connection, path, request):
        header = b"".join(_literal(*pair) for pair in (
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers")))
        message = b"\0" + struct.pack(">I", len(request)) + request
        connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, _WINDOW)) +
                           _frame(8, 0, 0, struct.pack(">I", _WINDOW)) +
                           _frame(_HEADERS, _END_HEADERS, 1, header) + _frame(_DATA, _END_STREAM, 1, message))
        headers = _Headers()
        try:
            told, body = self._answer(connection, headers, path)
        finally:
            headers.close()
        if told.get("grpc-status") != "0":
            raise CriError(f"{path.rpartition('/')[2]}: {told.get('grpc-message', told)}")
        return decode(body[5:])

    def _answer(self, connection, headers, path):
        stream = connection.makefile("rb")
        told, body, block = {}, b"", b""
        while True:
            head = stream.read(9)
            if len(head) < 9:
                raise CriError(f"{path}: the connection ended")
            payload = stream.read(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind in (_HEADERS, _CONTINUATION):
                block += payload
                if flags & _END_HEADERS:
                    told |= headers.decode(block)
                    block = b""
            elif kind == _DATA:
                body += payload
            elif kind == _SETTINGS and not flags & _ACK:
                connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                connection.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind in (_RESET, _GOAWAY):
                raise CriError(f"{path}: the engine broke the call off")
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                return told, body

    # What the kubelet asks. Networks are the host's: no network plugin is under test.

    def handlers(self):
        return [decode(one).get(1, [b""])[0].decode() for one in self.call("Status", {}).get(3, [])]

    def run_pod(self, name, cgroup, runtime="", attempt=0, annotations=None):
        """(id, the configuration that containers in it are created with)"""
        pod = {1: {1: name, 2: f"uid-{name}", 3: "engines", 4: attempt}, 3: f"/var/log/pods/{name}",
               7: _map(annotations or {}), 8: {1: cgroup, 2: {1: _NAMESPACES}}}
        answer = self.call("RunPodSandbox", {1: pod, 2: runtime} if runtime else {1: pod})
        return answer[1][0].decode(), pod

    def create(self, pod, image, command, environment=None, annotations=None, devices=()):
        container = {1: {1: "main", 2: pod[1][1][4]}, 2: {1: image}, 3: list(command), 6: _map(environment or {}),
                     10: _map(annotations or {}), 11: "main.log", 15: {2: {3: _NAMESPACES}},
                     17: [{1: device} for device in devices]}
        return self.call("CreateContainer", {1: pod[0], 2: container, 3: pod[1]})[1][0].decode()

    def start(self, container):
        self.call("StartContainer", {1: container})

    def execute(self, container, command):
        """(exit status, output)"""
        answer = self.call("ExecSync", {1: container, 2: list(command), 3: 60})
        return answer.get(3, [0])[0], b"".join(answer.get(1, []) + answer.get(2, [])).decode(errors="replace")

    def states(self):
        """{id: state} of all containers."""
        return {one[1][0].decode(): one.get(6, [0])[0] for one in
                (decode(item) for item in self.call("ListContainers", {}).get(1, []))}

    def remove_pod_of(self, container):
        """Stops and removes the pod that has this container."""
        pod = next(one[2][0].decode() for one in map(decode, self.call("ListContainers", {})[1])
                   if one[1][0].decode() == container)
        self.call("StopPodSandbox", {1: pod})
        self.call("RemovePodSandbox", {1: pod})
