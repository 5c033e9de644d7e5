"""The command line of the local cluster: `python3 -m cluster COMMAND`, or `make up`, `make down`, ..."""

from __future__ import annotations

import argparse
import pathlib
import sys

from cluster import chart, description, down, enter, images, kubevirt_definitions, main_job, processes, progress, showcase, \
    status, up
from cluster.errors import ClusterError
from cluster.programs import COMPONENTS, Programs
from cluster.state import State


def _prepare(arguments: argparse.Namespace) -> tuple[description.Cluster, images.Simulation | None, Programs]:
    """All that can go wrong before anything is made."""
    wanted = description.load(arguments.file)
    simulation = images.Simulation.find(arguments.build)
    up.check_gpus(wanted, simulation)
    progress.heading(f"Cluster `{wanted.name}` from {wanted.path}")
    with progress.step("prerequisites") as step:
        up.check_prerequisites()
        gpus = sum(int(entry.get("count", 1)) for node in wanted.nodes for entry in node.gpus)
        machine = " and the machine's" if any(node.machine_gpus for node in wanted.nodes) else ""
        step.detail = f"root, tools, overlay; {len(wanted.nodes)} nodes, {gpus} simulated GPUs{machine} wanted"
    programs = Programs()
    with progress.step("programs") as step:
        programs.locate(step)
    return wanted, simulation, programs


def _up(arguments: argparse.Namespace) -> int:
    arguments.build = arguments.build.absolute()
    wanted, simulation, programs = _prepare(arguments)
    processes.refuse_foreign(wanted.name)
    state = State(wanted.name)
    with state.lock():
        archives = images.archives(arguments.build / "images")
        if up.is_complete(state, wanted):
            print("  it is up already")
            up.renew_images(state, wanted, archives)
            history = None
        else:
            if down.traces(wanted.name):
                progress.heading("An earlier start was interrupted, or its processes have ended: its remains first")
                down.remove(wanted.name)
                progress.heading(f"Cluster `{wanted.name}`")
            history = up.bring_up(state, wanted, programs, simulation, archives)
        if not arguments.bare:
            main_job.run(state, programs, chart.values_of(state, wanted) + arguments.values, history)
        showcase.show_next(state, str(programs.folder("kubectl")), arguments.bare)
    return 0


def _programs(arguments: argparse.Namespace) -> int:
    with progress.step("programs") as step:
        Programs().locate(step, arguments.names)
        if not arguments.names:
            kubevirt_definitions.ensure(step)
    return 0


def _down(arguments: argparse.Namespace) -> int:
    down.down(arguments.name)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    status.show(arguments.name)
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    return enter.run(State(arguments.name), arguments.node, arguments.command or ["/bin/bash"]).returncode


def _component(name: str) -> str:
    known = [component.name for component in COMPONENTS]
    if name not in known:
        raise argparse.ArgumentTypeError(f'"{name}": the programs come from {", ".join(known)}')
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m cluster", description="A real Kubernetes cluster on this "
                                     "machine, with simulated GPUs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("up", help="bring a cluster up")
    one.add_argument("file", nargs="?", type=pathlib.Path, default=description.DEFAULT_FILE,
                     help="the cluster file (default: %(default)s)")
    one.add_argument("--build", type=pathlib.Path, default=images.ROOT / "build/release",
                     help="the build folder whose programs and images are used (default: %(default)s)")
    one.add_argument("--values", type=pathlib.Path, action="append", default=[],
                     help="a Helm values file for the operator's chart; may be given several times")
    one.add_argument("--bare", action="store_true", help="only the cluster: without the operator and the samples")
    one.set_defaults(run=_up)
    one = commands.add_parser("programs", help="find the programs of the cluster and of the tests, or build them")
    one.add_argument("names", nargs="*", metavar="NAME", type=_component,
                     help=f"only these: {', '.join(component.name for component in COMPONENTS)}")
    one.set_defaults(run=_programs)
    one = commands.add_parser("down", help="take a cluster down and leave nothing")
    one.add_argument("name", nargs="?", default="local", help="the cluster's name (default: %(default)s)")
    one.set_defaults(run=_down)
    one = commands.add_parser("status", help="show nodes, processes and GPUs")
    one.add_argument("name", nargs="?", default="local", help="the cluster's name (default: %(default)s)")
    one.set_defaults(run=_status)
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
