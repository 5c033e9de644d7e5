"""Where a cluster keeps what belongs to it, and what it has recorded.

Everything is recorded before it is created: whatever moment an `up` is killed at, `down` finds all of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import shutil

from cluster.errors import Busy


def root() -> pathlib.Path:
    """The folder of all clusters' states: $PITCREW_STATE, or `pitcrew` in the user's state folder."""
    if os.environ.get("PITCREW_STATE"):
        return pathlib.Path(os.environ["PITCREW_STATE"]).absolute()
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(home).absolute() / "pitcrew"


class State:
    """One cluster's folder. The record is a small JSON file, replaced atomically."""

    def __init__(self, name: str):
        self.name = name
        self.folder = root() / name
        self._record_path = self.folder / "record.json"

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.folder / "kubeconfig"

    @property
    def certificates(self) -> pathlib.Path:
        return self.folder / "certificates"

    def log(self, name: str) -> pathlib.Path:
        path = self.folder / "log" / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def read(self) -> dict | None:
        """The record, or None when there is none (or an unreadable one, of which nothing can be said)."""
        try:
            return json.loads(self._record_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write(self, record: dict):
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self._record_path.with_suffix(".new")
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, self._record_path)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            root().rmdir()  # only when no other cluster has its folder there

    @contextlib.contextmanager
    def lock(self):
        """Only one run of the tool works on a cluster at a time. The lock ends with the process."""
        parent = root()
        path = parent / f".{self.name}.lock"
        descriptor = None
        while descriptor is None:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:
                continue  # another run has just removed the empty folder
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise Busy(f"another run of this tool works on cluster `{self.name}` just now; "
                           "wait until it has ended, or end it") from None
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                    break
            os.close(descriptor)  # the file was removed between opening and locking
            descriptor = None
        try:
            yield
        finally:
            if not self.folder.exists():
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    parent.rmdir()
            os.close(descriptor)


def known_clusters() -> list[str]:
    try:
        return sorted(entry.name for entry in root().iterdir() if entry.is_dir())
    except OSError:
        return []
