"""The command line of the local cluster: `python3 -m cluster COMMAND`, or `make up`, `make down`, ..."""

from __future__ import annotations

import argparse
import pathlib
import sys

from cluster import description, down, enter, images, progress, up
from cluster.errors import ClusterError
from cluster.programs import Programs
from cluster.state import State


def _up(arguments: argparse.Namespace) -> int:
    wanted = description.load(arguments.file)
    build = arguments.build.absolute()
    simulation = images.Simulation.find(build)
    progress.heading(f"Cluster `{wanted.name}` from {wanted.path}")
    with progress.step("prerequisites"):
        up.check_prerequisites()
    with progress.step("description") as step:
        up.check_gpus(wanted, simulation)
        gpus = sum(entry.get("count", 1) for node in wanted.nodes for entry in node.gpus)
        step.detail = f"{len(wanted.nodes)} nodes, {gpus} simulated GPUs"
    programs = Programs()
    with progress.step("programs") as step:
        programs.locate(step)
    state = State(wanted.name)
    with state.lock():
        if up.is_complete(state, wanted):
            print(f"  it is up already ({state.folder})")
        else:
            if down.traces(wanted.name):
                progress.heading("An earlier start was interrupted; taking its remains away first")
                down.remove(wanted.name)
                progress.heading(f"Cluster `{wanted.name}`")
            archives = images.archives(build / "images")
            up.bring_up(state, wanted, programs, simulation, archives)
    print(f"\nexport KUBECONFIG={state.kubeconfig}\nexport PATH={programs.folder('kubectl')}:$PATH\n")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    down.down(arguments.name)
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    return enter.run(State(arguments.name), arguments.node, arguments.command or ["/bin/bash"]).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m cluster", description="A real Kubernetes cluster on this "
                                     "machine, with simulated GPUs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("up", help="bring a cluster up")
    one.add_argument("file", nargs="?", type=pathlib.Path, default=description.DEFAULT_FILE,
                     help="the cluster file (default: %(default)s)")
    one.add_argument("--build", type=pathlib.Path, default=images.ROOT / "build/release",
                     help="the build folder whose programs and images are used (default: %(default)s)")
    one.set_defaults(run=_up)
    one = commands.add_parser("down", help="take a cluster down and leave nothing")
    one.add_argument("name", nargs="?", default="local", help="the cluster's name (default: %(default)s)")
    one.set_defaults(run=_down)
    one = commands.add_parser("exec", help="run a command on a node, as its root")
    one.add_argument("--name", default="local", help="the cluster's name (default: %(default)s)")
    one.add_argument("node", help="the node's name, or control-plane")
    one.add_argument("command", nargs=argparse.REMAINDER)
    one.set_defaults(run=_exec)
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return arguments.run(arguments)
    except ClusterError as error:
        progress.failure(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
