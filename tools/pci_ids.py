#!/usr/bin/env python3
"""Updates the PCI ID database of the image, deploy/image/pci.ids, after which devices for virtual machines are named.

    tools/pci_ids.py [--rename] [--dry-run] FILE

FILE is a whole database in the format of https://pci-ids.ucw.cz, for example /usr/share/misc/pci.ids of Debian's package
pci.ids. Only NVIDIA's devices are taken, without subsystems. Virtual machines ask for their devices by these names: where
FILE has another one for a device that the image has, so that the resource would be called otherwise, the old name stays
and the new one is shown; --rename takes it. --dry-run writes nothing. Devices that FILE no longer has stay.

Exit status: 0 done, 1 FILE is no database, 2 usage.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGE_FILE = ROOT / "deploy/image/pci.ids"
VENDOR = "10de"
_DEVICE = re.compile(r"\t([0-9a-f]{4})  (.+)")

HEADER = """\
#	PCI devices of NVIDIA, from the PCI ID database, version {version}: https://pci-ids.ucw.cz
#
#	Only vendor {vendor}, without subsystems. Written by tools/pci_ids.py; do not change it by hand: virtual machines ask for
#	their devices by these names.
#
#	The database is maintained by Albert Pool, Martin Mares and other volunteers from the PCI ID project, who offer it
#	under the GNU General Public License (version 2 or higher) or the 3-clause BSD licence. Here it is under the latter:
#
#	Copyright (c) 1997-2026 Martin Mares
#	Copyright (c) 2015-2026 Albert Pool
#
#	Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
#	following conditions are met:
#
#	1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following
#	   disclaimer.
#	2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
#	   following disclaimer in the documentation and/or other materials provided with the distribution.
#	3. Neither the name of the copyright holder nor the names of its contributors may be used to endorse or promote
#	   products derived from this software without specific prior written permission.
#
#	THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES,
#	INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
#	DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
#	SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
#	SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY,
#	WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
#	OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
#
{vendor}  NVIDIA Corporation
"""


class NotADatabase(Exception):
    """The file is no PCI ID database with NVIDIA's devices."""


def read(text: str) -> dict[str, str]:
    """NVIDIA's devices by their number."""
    names, in_vendor = {}, False
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith("\t"):
            if in_vendor:
                break
            in_vendor = line.startswith(f"{VENDOR}  ")
        elif in_vendor and (device := _DEVICE.fullmatch(line)):
            names.setdefault(device[1], device[2].rstrip())
    if not names:
        raise NotADatabase(f"it has no devices of vendor {VENDOR}")
    return names


def version_of(text: str) -> str:
    found = re.search(r"^#\s*Version:\s*(\S+)", text, re.MULTILINE) or re.search(
        r"PCI ID database, version ([\d.]+):", text)
    if not found:
        raise NotADatabase("it does not tell its version")
    return found[1]


def resource(device: str, name: str) -> str:
    """What KubeVirt's device plugin calls it (src/gpu/device_names.h has the rules)."""
    name = re.sub(r"\s+", "_", name.strip().upper().replace("/", "_").replace(".", "_"))
    return "nvidia.com/" + (re.sub(r"[^A-Za-z0-9_]", "", name) or device)


def merge(old: dict[str, str], new: dict[str, str], rename: bool) -> tuple[dict[str, str], list[str]]:
    """The devices that the image is to have, and one line about each that is another one than before."""
    merged, lines = dict(old), []
    for device, name in sorted(new.items()):
        before = old.get(device)
        if before is None:
            lines.append(f"new      {device}  {resource(device, name)}" + (f", until now nvidia.com/{device}" if old else ""))
        elif resource(device, before) != resource(device, name):
            lines.append(f"{'renamed' if rename else 'kept   '}  {device}  {resource(device, before)}, "
                         f"{'now' if rename else 'elsewhere'} {resource(device, name)}")
            if not rename:
                continue
        merged[device] = name
    return merged, lines


def text_of(names: dict[str, str], version: str) -> str:
    return HEADER.format(version=version, vendor=VENDOR) + "".join(
        f"\t{device}  {name}\n" for device, name in sorted(names.items()))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--rename", action="store_true", help="take other names for devices that the image has")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--into", type=pathlib.Path, default=IMAGE_FILE, help="another file than the image's")
    options = parser.parse_args(arguments)
    try:
        given = options.file.read_text(encoding="utf-8")
        old = read(options.into.read_text(encoding="utf-8")) if options.into.exists() else {}
        merged, lines = merge(old, read(given), options.rename)
        written = text_of(merged, version_of(given))
    except (OSError, UnicodeDecodeError, NotADatabase) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    for line in lines if old else []:
        print(line)
    if not options.dry_run:
        options.into.write_text(written, encoding="utf-8")
    print(f"{len(merged)} devices" + (", nothing written" if options.dry_run else f" in {options.into}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
