"""Which programs Pitcrew's image has, read from where they come from: the commands, the validator's components, and the
recipe of the image."""

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
_COMMAND = re.compile(r'^COMMAND\("([^"]*)",\s*"([^"]*)"', re.MULTILINE)
# In the image, and not tried on a whole cluster yet: no operand is to start them.
UNTRIED = set()
_COMPONENT = re.compile(r'^COMPONENT\("([^"]*)"\)', re.MULTILINE)


def programs():
    """Sorted. A program that does several things under one name stands with the one that is meant:
    `nvidia-validator driver`."""
    recipe = yaml.safe_load((ROOT / "deploy/image/recipes/pitcrew.yaml").read_text(encoding="utf-8"))
    found = set()
    for file in recipe["files"]:
        for path in (file["to"], *file.get("links", [])):
            if path.startswith("/usr/bin/"):
                found.add(path.rsplit("/", 1)[1])
    commands = (ROOT / "src/main/commands.def").read_text(encoding="utf-8")
    for _, names in _COMMAND.findall(commands):
        found.update(names.split())
    found.remove("nvidia-validator")
    components = (ROOT / "src/node/validator/components.def").read_text(encoding="utf-8")
    found.update(f"nvidia-validator {name}" for name in _COMPONENT.findall(components))
    return sorted(found - UNTRIED)


def text(header):
    lines = "".join(f"  - {name}\n" for name in programs())
    return f"{header}# The programs of Pitcrew's image. Where an operand starts another one, its image is NVIDIA's.\nprograms:\n{lines}"
