"""What `make driver-image` writes for a container engine, followed line by line in a root: as an engine without layers."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
import sys

from systems import System

_BUILD = pathlib.Path(__file__).resolve().parents[2] / "deploy/driver-image/build.py"


def _write(folder: pathlib.Path, *arguments: str) -> pathlib.Path:
    """The context's folder."""
    done = subprocess.run([sys.executable, str(_BUILD), "--engine", "none", "--into", str(folder), *arguments], check=False,
                          capture_output=True, text=True)
    if done.returncode != 3:  # the context is written, and there is no engine
        raise AssertionError(f"build.py ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    [context] = folder.iterdir()
    return context


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in "\n".join(lines).replace("\\\n", "").splitlines()]


def follow(system: System, folder: pathlib.Path, *arguments: str) -> dict[str, str]:
    """Makes the image of these arguments out of `system`, which is its base. Returns the image's variables."""
    context = _write(folder, *arguments)
    variables: dict[str, str] = {}
    for instruction, rest in _instructions((context / "Containerfile").read_text(encoding="utf-8")):
        if instruction == "RUN":
            done = system.run("sh", "-c", rest, **variables)
            if done.returncode != 0:
                raise AssertionError(f"RUN {rest}\nended with {done.returncode}:\n{done.stdout}")
        elif instruction == "COPY":
            name, place = rest.split()
            target = system.root / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if (context / name).is_dir():
                shutil.copytree(context / name, target)
            else:
                shutil.copy2(context / name, target)
        elif instruction == "ENV":
            variables.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif instruction not in ("ARG", "FROM", "WORKDIR", "ENTRYPOINT", "CMD"):
            raise AssertionError(f"{instruction} {rest}: no such instruction is known here")
    return variables
