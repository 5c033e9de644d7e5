#!/usr/bin/env python3
"""Runs one scenario in a virtual machine with Debian's kernel, and ends as the scenario ends.

    run.py [--program GUEST=FILE]... [--file GUEST=FILE]... [--link GUEST=TARGET]... [--driver-image GUEST=FILE]...
           [--package-images GUEST=FILE]... [--rebooted-images GUEST=FILE]... [--kernel-option WORD]...
           [--memory MIB] [--deadline SECONDS] -- COMMAND...

COMMAND is run in the machine as root; its output and the kernel's messages come out here. Exit status: the command's
own; 124 when the deadline has passed, 125 when the machine could not be made or ended by itself. README.md describes
the machine.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

import initrd
import machine


def _pair(text: str) -> tuple[str, str]:
    guest, sign, here = text.partition("=")
    if not sign or not guest.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text}: write /PATH/IN/THE/MACHINE=PATH")
    return guest, here


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=_pair, action="append", default=[], metavar="GUEST=FILE",
                        help="a program of the build, with its libraries")
    parser.add_argument("--file", type=_pair, action="append", default=[], metavar="GUEST=FILE",
                        help="a file or a folder, as it is")
    parser.add_argument("--link", type=_pair, action="append", default=[], metavar="GUEST=TARGET",
                        help="a symbolic link in the machine: a program's second name")
    parser.add_argument("--driver-image", type=_pair, action="append", default=[], metavar="GUEST=FILE",
                        help="a driver container's root file system, with a compiler and FILE as nvidia-driver")
    parser.add_argument("--package-images", type=_pair, action="append", default=[], metavar="GUEST=FILE",
                        help="a folder of those that dnf and apt have made, with FILE as nvidia-driver")
    parser.add_argument("--rebooted-images", type=_pair, action="append", default=[], metavar="GUEST=FILE",
                        help="boot Debian's other kernel, with a folder of driver containers that the usual one had before")
    parser.add_argument("--kernel-option", action="append", default=[], metavar="WORD",
                        help="one more word of the kernel's command line")
    parser.add_argument("--memory", type=int, default=machine.MEMORY_MIB, help="MiB (%(default)s)")
    parser.add_argument("--deadline", type=float, default=900,
                        help="seconds for the machine's whole life (%(default)s)")
    parser.add_argument("--no-iommu", action="store_true", help="a machine without an IOMMU")
    parser.add_argument("command", nargs="+", help="what is run in the machine")
    return parser.parse_args()


def _status(result: pathlib.Path) -> int | None:
    """What the scenario ended with; None when the machine ended before it did."""
    words = result.read_text(encoding="ascii", errors="replace").split() if result.exists() else []
    return int(words[1]) if len(words) == 2 and words[0] == "exit" and words[1].isdigit() else None


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="pitcrew-kernel-") as folder:
        work = pathlib.Path(folder)
        result = work / "result"
        try:
            kernel = machine.find_second_kernel() if arguments.rebooted_images else machine.find_kernel()
            archive = initrd.write(kernel, work, arguments.command,
                                   {guest: pathlib.Path(here) for guest, here in arguments.program},
                                   {guest: pathlib.Path(here) for guest, here in arguments.file}, dict(arguments.link),
                                   {guest: pathlib.Path(here) for guest, here in arguments.driver_image},
                                   {guest: pathlib.Path(here) for guest, here in arguments.package_images},
                                   {guest: pathlib.Path(here) for guest, here in arguments.rebooted_images})
            machine.boot(kernel, archive, result, arguments.deadline, not arguments.no_iommu, arguments.memory,
                         arguments.kernel_option)
        except (machine.MissingPart, initrd.libraries.BuildError, OSError) as error:
            print(f"kernel test: {error}", file=sys.stderr)
            return 125
        except subprocess.TimeoutExpired:
            print(f"kernel test: the machine still runs after {arguments.deadline:.0f} s", file=sys.stderr)
            return 124
        status = _status(result)
        if status is None:
            print("kernel test: the machine ended before the scenario did; the kernel's last words are above",
                  file=sys.stderr)
            return 125
        return status


if __name__ == "__main__":
    sys.exit(main())
