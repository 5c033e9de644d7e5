"""Prints each step with its name, its result and its time, as it happens."""

from __future__ import annotations

import contextlib
import sys
import time

_WIDTH = 34
_LOG_LINES = 15


class Step:
    """One step that is under way; `detail` is what its line says at the end."""

    def __init__(self, name: str):
        self.name = name
        self.detail = ""
        self._notes = 0

    def note(self, text: str):
        """Tells something while the step goes on, on a line of its own."""
        if self._notes == 0 and sys.stdout.isatty():
            print()
        self._notes += 1
        print(f"      {text}", flush=True)

    @property
    def noted(self) -> bool:
        return self._notes > 0


class Progress:
    """How far something long is, of `total` parts, with the time so far and an estimate of the rest. On a terminal one
    line that changes, elsewhere a line now and then."""

    _EVERY = {True: 0.2, False: 30.0}  # seconds, by whether it is a terminal
    _SURE = 20.0  # seconds before which an estimate is a guess

    def __init__(self, parent: Step, name: str, total: int):
        self._step = parent
        self._name = name
        self._total = total
        self._done = 0
        self._began = self._told = time.monotonic()
        self._terminal = sys.stdout.isatty()

    def advance(self, downloading: bool = False):
        """One more part is done; or something was fetched for it, which counts as none."""
        self._done += 0 if downloading else 1
        now = time.monotonic()
        if now - self._told < self._EVERY[self._terminal]:
            return
        self._told = now
        text = f"{self._name}: {self.words(now - self._began, downloading)}"
        if self._terminal:
            print(f"\r      {text:<70}", end="", flush=True)
        else:
            self._step.note(text)

    def words(self, seconds: float, downloading: bool = False) -> str:
        if downloading and not self._done:
            return f"downloading, {clock(seconds)}"
        if not self._total:
            return f"{self._done} packages, {clock(seconds)}"
        done = min(self._done, self._total)
        if done == self._total:
            return f"{done} of {self._total} packages, linking, {clock(seconds)}"
        text = f"{done} of {self._total} packages, {clock(seconds)}"
        if not done or seconds < self._SURE:
            return text
        return f"{text}, about {clock(seconds / done * (self._total - done))} left"

    def end(self):
        text = f"{self._name}: built in {clock(time.monotonic() - self._began)}"
        if self._terminal:
            print(f"\r      {text:<70}", flush=True)
        else:
            self._step.note(text)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@contextlib.contextmanager
def step(name: str):
    """Runs the body as a step. An exception prints `failed` with the time and goes on upwards."""
    current = Step(name)
    began = time.monotonic()
    if sys.stdout.isatty():
        print(f"  {name:<{_WIDTH}} ", end="", flush=True)
    try:
        yield current
    except BaseException:
        _finish(current, "failed", time.monotonic() - began)
        raise
    _finish(current, "ok", time.monotonic() - began)


def _finish(current: Step, result: str, seconds: float):
    prefix = "" if sys.stdout.isatty() and not current.noted else f"  {current.name:<{_WIDTH}} "
    print(f"{prefix}{result:<6} {seconds:6.1f} s   {current.detail}".rstrip(), flush=True)


def heading(text: str):
    print(f"\n{text}", flush=True)


def failure(error: Exception, step_name: str | None = None):
    """Says what failed, why (the log's last lines) and where the log is."""
    where = f"{step_name}: " if step_name else ""
    print(f"\nerror: {where}{error}", file=sys.stderr)
    log = getattr(error, "log", None)
    if log:
        try:
            with open(log, encoding="utf-8", errors="replace") as stream:
                lines = stream.read().splitlines()[-_LOG_LINES:]
        except OSError as reason:
            print(f"its log {log} cannot be read: {reason.strerror}", file=sys.stderr)
            return
        for line in lines:
            print(f"  | {line[:300]}", file=sys.stderr)
        print(f"the whole log: {log}", file=sys.stderr)


def table(rows: list[list[str]], header: list[str]):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  " + "  ".join(f"{str(cell):<{width}}" for cell, width in zip(row, widths)).rstrip())
    sys.stdout.flush()
