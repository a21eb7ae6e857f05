# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The main job of the collection, shown on a simulated cluster: piled-up workloads are found, restarted and spread.

`make demo` runs it. The exit code tells whether the cluster came out as it should.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab import binaries
from lab.cluster import Cluster, up
from lab.errors import LabError
from lab.layout import REPOSITORY, SOURCES, default_folder
from lab.progress import end_on_signals

NAME = "demo"
END = f".venv/bin/python -m lab down --name {NAME}"
MANIFESTS = SOURCES / "demo"
EXPECT, SHOWS, THEN = "demo.onprem/expect", "demo.onprem/shows", "demo.onprem/then"
START_TIMEOUT_S = 60.0
POLL_S = 0.2
EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Ansible:
    """The programs of Ansible that run the playbook, its path or name, and the folder and the variables of their environment."""

    programs: Path
    playbook: str
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)


FROM_CHECKOUT = Ansible(Path(sys.executable).parent, str(REPOSITORY / "playbooks" / "rebalance.yml"), REPOSITORY)


class DemoError(Exception):
    """The cluster did not come out as it should."""


@dataclass(frozen=True)
class Workload:
    """One workload of the demo and what is expected of it: `spread`, or `stay` with its pods untouched."""

    kind: str
    namespace: str
    name: str
    replicas: int
    expect: str
    shows: str
    then: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Pods:
    """The pods of one workload: node by UID."""

    nodes: dict[str, str]
    running: int

    @property
    def piled_up(self) -> bool:
        return len(set(self.nodes.values())) == 1

    def __str__(self) -> str:
        nodes = Counter(self.nodes.values())
        if len(nodes) == 1:
            return f"{len(self.nodes)} on {next(iter(nodes))}"
        return f"{len(self.nodes)} on {len(nodes)} nodes"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    end_on_signals()
    try:
        run(workers=options.workers, keep=options.keep)
    except (LabError, DemoError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def run(*, workers: int, keep: bool, ansible: Ansible = FROM_CHECKOUT) -> None:
    """Start a cluster, show the job on it, and take it down again unless it is to be kept."""
    started = time.monotonic()
    _step(f"Start a cluster of its own: a real control plane, simulated nodes, {workers} of them for workloads")
    folder = default_folder(NAME)
    Cluster.at(folder, NAME).down()
    cluster = up(folder, NAME, scenario="demo" if workers > 1 else "single-worker", log=_say)
    try:
        show = _show_spreading if workers > 1 else _show_single_worker
        show(cluster, ansible, default_folder("default") / "demo")
        if keep:
            _cordon(cluster, all_but=None)  # the demo ends with one open worker
        _say(f"\nThe cluster came out as it should, {time.monotonic() - started:.0f} s in all.")
    finally:
        if keep:
            _say(f"\nThe cluster is still up:  export KUBECONFIG={cluster.kubeconfig}")
            _say(f"kubectl comes with:       export PATH={binaries.ensure()}:$PATH")
            _say(f"Take it down with:        {END}")
        else:
            cluster.down()
            _say(f"\nThe cluster is taken down again. `LAB_KEEP=1 make demo` leaves it up to look around; {END} ends it then.")


# --- the two shows ----------------------------------------------------------------------------------------------------


def _show_spreading(cluster: Cluster, ansible: Ansible, reports: Path) -> None:
    workloads = _workloads("settled", "spreads", "stays")
    piled_up = _pile_up(cluster, workloads)

    _step("Ask for the plan: ansible-playbook playbooks/rebalance.yml --check")
    plan = _playbook(cluster, ansible, reports / "plan.html", "--check")
    _same_pods(cluster, workloads, piled_up, "the plan")

    _step("Rebalance: ansible-playbook playbooks/rebalance.yml")
    report = _playbook(cluster, ansible, reports / "report.html", "--extra-vars", "rebalance_max_parallel=3")
    spread = _pods(cluster, workloads)
    _judge(workloads, piled_up, spread)

    _step("Run it again: nothing is left to do, and what cannot be helped is not disturbed")
    _playbook(cluster, ansible, reports / "again.html")
    _same_pods(cluster, workloads, spread, "the second run")

    _step("With one worker left there is nowhere to spread to: the same run does nothing")
    _cordon(cluster, all_but="worker-1")
    _playbook(cluster, ansible, reports / "single-worker.html")
    _same_pods(cluster, workloads, spread, "the run with one worker")

    _say(f"\nThe plan as HTML:    {plan}")
    _say(f"The report as HTML:  {report}")


def _show_single_worker(cluster: Cluster, ansible: Ansible, reports: Path) -> None:
    _step("Start the workloads; there is one worker for all of them")
    workloads = _workloads("spreads", "stays")
    _apply(cluster, "namespaces", "spreads", "stays")
    before = _wait_running(cluster, workloads)

    _step("Rebalance: with one worker there is nowhere to spread to")
    report = _playbook(cluster, ansible, reports / "single-worker.html")
    _same_pods(cluster, workloads, before, "the run")
    _say(f"\nThe report as HTML:  {report}")


def _pile_up(cluster: Cluster, workloads: list[Workload]) -> dict[Workload, Pods]:
    _step("Cordon all workers but one, as in a rolling upgrade, and start the workloads: they pile up")
    _apply(cluster, "namespaces", "settled")
    _wait_running(cluster, _workloads("settled"))
    _cordon(cluster, all_but="worker-1")
    _apply(cluster, "spreads", "stays")
    pods = _wait_running(cluster, workloads)
    _pause(cluster, workloads)
    for workload in workloads:
        _say(f"  {workload!s:<22} {pods[workload]!s:<17} {workload.shows}")
    _step("Uncordon: the pods stay where they are, Kubernetes does not move them")
    _cordon(cluster, all_but=None)
    return pods


# --- the cluster ------------------------------------------------------------------------------------------------------


def _workloads(*files: str) -> list[Workload]:
    """The workloads of manifest files, given without their ending."""
    manifests = [manifest for name in files for manifest in yaml.safe_load_all(_manifest(name))]
    return [_workload(manifest) for manifest in manifests if EXPECT in manifest["metadata"].get("annotations", {})]


def _workload(manifest: dict[str, Any]) -> Workload:
    metadata = manifest["metadata"]
    annotations: dict[str, str] = metadata["annotations"]
    return Workload(
        kind=manifest["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        replicas=manifest["spec"]["replicas"],
        expect=annotations[EXPECT],
        shows=annotations[SHOWS],
        then=annotations.get(THEN, ""),
    )


def _manifest(name: str) -> str:
    return (MANIFESTS / f"{name}.yaml").read_text()


def _apply(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.apply(_manifest(name))
        for manifest in yaml.safe_load_all(_manifest(name)):
            if manifest["kind"] == "Namespace":
                cluster.wait_namespace(manifest["metadata"]["name"])


def _wait_running(cluster: Cluster, workloads: list[Workload]) -> dict[Workload, Pods]:
    """The pods, once every replica runs."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        pods = _pods(cluster, workloads)
        late = [str(workload) for workload in workloads if pods[workload].running < workload.replicas]
        if not late:
            return pods
        if time.monotonic() > deadline:
            raise DemoError(f"not all replicas run after {START_TIMEOUT_S:.0f} s: {', '.join(late)}")
        time.sleep(POLL_S)


def _pause(cluster: Cluster, workloads: list[Workload]) -> None:
    for workload in workloads:
        if workload.then == "pause":
            cluster.kubectl("--namespace", workload.namespace, "rollout", "pause", f"{workload.kind}/{workload.name}")


def _pods(cluster: Cluster, workloads: Iterable[Workload]) -> dict[Workload, Pods]:
    """The pods that are there to stay, by workload."""
    items: list[dict[str, Any]] = cluster.get("/api/v1/pods")["items"]
    by_app: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pod in items:
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata:
            by_app.setdefault((metadata["namespace"], metadata.get("labels", {}).get("app", "")), []).append(pod)
    return {workload: _summary(by_app.get((workload.namespace, workload.name), [])) for workload in workloads}


def _summary(pods: list[dict[str, Any]]) -> Pods:
    nodes = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "no node") for pod in pods}
    return Pods(nodes, running=sum(pod["status"].get("phase") == "Running" for pod in pods))


def _cordon(cluster: Cluster, *, all_but: str | None) -> None:
    """Cordon all workers but one, or none of them."""
    workers = "--selector=!node-role.kubernetes.io/control-plane"
    cluster.kubectl("cordon" if all_but else "uncordon", workers)
    if all_but:
        cluster.kubectl("uncordon", all_but)


# --- the playbook -----------------------------------------------------------------------------------------------------


def _playbook(cluster: Cluster, ansible: Ansible, report: Path, *arguments: str) -> Path:
    """Run rebalance.yml on the cluster, showing what it says, and return the path of its HTML report."""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [str(ansible.programs / "ansible-playbook"), ansible.playbook]
    command += ["--extra-vars", f"rebalance_report_path={report}", *arguments]
    code = subprocess.run(command, cwd=ansible.folder, env=_environment(cluster, ansible), check=False).returncode
    if code != 0:
        raise DemoError(f"ansible-playbook ended with exit code {code}")
    if not report.is_file():
        raise DemoError(f"ansible-playbook wrote no report to {report}")
    return report


def _environment(cluster: Cluster, ansible: Ansible) -> dict[str, str]:
    """The caller's environment, without anything that could point to another cluster."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("K8S_AUTH_") and key != "KUBECONFIG"}
    return {
        **kept,
        "K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig),
        # YAML shows the map as it is; localhost needs no inventory.
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        **ansible.environment,
    }


# --- what must have come of it ----------------------------------------------------------------------------------------


def _judge(workloads: list[Workload], before: dict[Workload, Pods], after: dict[Workload, Pods]) -> None:
    wrong = []
    for workload in workloads:
        if workload.expect == "spread" and (after[workload].piled_up or after[workload].running < workload.replicas):
            wrong.append(f"{workload} should be spread by now: {after[workload]}")
        if workload.expect == "stay" and after[workload].nodes != before[workload].nodes:
            wrong.append(f"{workload} should not have been moved: {after[workload]}")
    if wrong:
        raise DemoError("\n".join(["the cluster is not as it should be", *wrong]))


def _same_pods(cluster: Cluster, workloads: list[Workload], before: dict[Workload, Pods], what: str) -> None:
    now = _pods(cluster, workloads)
    touched = [str(workload) for workload in workloads if now[workload].nodes != before[workload].nodes]
    if touched:
        raise DemoError(f"{what} should have changed nothing, but these have new pods: {', '.join(touched)}")


# --- the command line -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo", description="Show how piled-up workloads are spread again.")
    parser.add_argument("--workers", type=int, default=6, choices=(6, 1), help="6 to spread over, or 1 to see that nothing is done")
    parser.add_argument("--keep", action="store_true", default=os.environ.get("LAB_KEEP") == "1", help="leave the cluster up afterwards")
    return parser


def _step(text: str) -> None:
    _say(f"\n=== {text}\n")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
