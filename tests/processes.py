"""What tests of programs as processes have in common."""

import socket
import time


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def eventually(condition, what, seconds=240, pause=0.05):
    """The first value of `condition()` that counts as true. `what` is waited for: a text, or a function that makes one."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {seconds} s: {what() if callable(what) else what}")
        time.sleep(pause)
