"""Runs commands inside a node, or inside the control plane's namespaces."""

from __future__ import annotations

import json
import subprocess

from cluster import processes
from cluster.errors import ClusterError
from cluster.state import State


def _command(state: State, role: str, argv: list[str]) -> tuple[list[str], dict[str, str]]:
    pid = processes.first_process(state.name, role)
    if pid is None:
        raise ClusterError(f"cluster `{state.name}` has no running node `{role}`")
    spec = json.loads((state.folder / "specs" / f"{role}.json").read_text(encoding="utf-8"))
    return (["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--", *argv],
            processes.environment(state.name, role, {"PATH": spec["path"]}))


def start(state: State, role: str, argv: list[str], **options) -> subprocess.Popen:
    command, environment = _command(state, role, argv)
    return subprocess.Popen(command, env=environment, **options)


def run(state: State, role: str, argv: list[str], **options) -> subprocess.CompletedProcess:
    command, environment = _command(state, role, argv)
    return subprocess.run(command, env=environment, check=False, **options)
