# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind cluster with two workers in two zones, and with one or several control planes: bring it up, take it down."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import binaries
from lab.audit import AuditLog
from lab.errors import LabError
from lab.kind import config, engine, load_balancer, network, node_image, programs
from lab.kind.commands import answer, run
from lab.layout import SOURCES, cache_dir, check_cluster_name
from lab.locks import locked
from lab.progress import silent

IMAGE_VARIABLE = "KUBE_SCHEDULING_KIND_IMAGE"
CONTROL_PLANE = re.compile(r"-control-plane\d*")
READY_TIMEOUT = "180s"
REMOVE = "Remove it with `python -m lab kind down`, or give the cluster another name."
REMEDY = "Remove what is left with `python -m lab kind down`, then run it again. `docker logs NODE` shows the log of a node."


@dataclass(frozen=True)
class KindCluster:
    """Handle of a cluster. Everything is read from the engine and from the cluster's folder."""

    name: str
    folder: Path

    @classmethod
    def at(cls, folder: Path | str, name: str) -> KindCluster:
        check_cluster_name(name)
        return cls(name, Path(folder).resolve())

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def config_file(self) -> Path:
        return self.folder / "kind.yaml"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy" / Path(config.AUDIT_POLICY).name

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit" / Path(config.AUDIT_LOG).name

    def audit_logs(self, control_planes: int) -> list[Path]:
        """Return the audit log of each control plane. Each has a folder of its own, because a log is written by one API server."""
        others = [self.audit_log.parent / str(number) / self.audit_log.name for number in range(2, control_planes + 1)]
        return [self.audit_log, *others]

    def audit(self) -> AuditLog:
        """Return the audit log of the first control plane."""
        return AuditLog(self.audit_log)

    def nodes(self) -> list[str]:
        """Return the names of the node containers. They are also the names of the Nodes."""
        listed = answer(["docker", "ps", "--all", "--filter", f"label=io.x-k8s.kind.cluster={self.name}", "--format", "{{.Names}}"])
        return sorted(name for name in listed.split() if not name.endswith(network.BALANCER))

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator and return its output."""
        program = binaries.ensure(silent) / "kubectl"
        return answer([str(program), f"--kubeconfig={self.kubeconfig}", *arguments])

    def up(self, log: Callable[[str], None], *, image: str | None = None, control_planes: int = 1) -> None:
        """Return when all nodes and DNS are ready. A cluster that is up and answers is kept; what else is left of one is removed.

        `image`: a node image that the engine has or can pull (default: kind's own choice). Raises LabError if the cluster that is up has
        another number of control planes.
        """
        engine.ensure(log)
        kind = programs.kind(log)
        with locked(cache_dir() / f"kind-{self.name}.lock", why=f"which works on cluster {self.name}", log=log):
            nodes = self.nodes()
            if nodes and self._answers():
                found = sum(1 for node in nodes if CONTROL_PLANE.fullmatch(node.removeprefix(self.name)))
                if found != control_planes:
                    raise LabError(f"cluster {self.name}: it is up, and has {found} control planes in place of {control_planes}. {REMOVE}")
                log(f"cluster {self.name} is up already")
                return
            self._delete(kind, log)
            self._create(kind, image, control_planes, log)

    def down(self, log: Callable[[str], None]) -> None:
        """Remove the cluster and its files. One that is not there is fine."""
        reason = engine.problem()
        if reason:
            raise LabError(f"cluster {self.name}: {reason}. {engine.REMEDY}")
        with locked(cache_dir() / f"kind-{self.name}.lock", why=f"which works on cluster {self.name}", log=log):
            self._delete(programs.kind(log), log)
        log(f"cluster {self.name} is down")

    def _create(self, kind: Path, image: str | None, control_planes: int, log: Callable[[str], None]) -> None:
        own_network = (image or "").startswith(f"{node_image.REPOSITORY}:")
        # Where kind's node image can be pulled, kind also pulls that of its load balancer.
        if own_network and control_planes > 1:
            load_balancer.ensure(log)
        self._write_files(control_planes, own_network=own_network)
        log(f"cluster {self.name}: creating its nodes")
        command = [str(kind), "create", "cluster", "--name", self.name, "--config", str(self.config_file)]
        command += ["--kubeconfig", str(self.kubeconfig), *(["--image", image] if image else [])]
        run(command, what=f"kind create cluster {self.name}", log=log, remedy=REMEDY)
        if own_network:
            network.connect(
                self.nodes(), lambda node: self.kubectl("get", "node", node, "--ignore-not-found", "--output=jsonpath={.spec.podCIDR}")
            )
        log(f"cluster {self.name}: waiting for its nodes and DNS")
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={READY_TIMEOUT}")
        # Nodes are ready some seconds before DNS is.
        self.kubectl("--namespace=kube-system", "rollout", "status", "deployment/coredns", f"--timeout={READY_TIMEOUT}")

    def _write_files(self, control_planes: int, *, own_network: bool) -> None:
        audit_logs = self.audit_logs(control_planes)
        for path in (self.audit_policy, *audit_logs):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / self.audit_policy.name, self.audit_policy)
        text = config.render(audit_policy=self.audit_policy, audit_logs=audit_logs, capacity=config.machine(), own_network=own_network)
        self.config_file.write_text(text)

    def _answers(self) -> bool:
        try:
            return self.kubeconfig.exists() and self.kubectl("get", "--raw=/readyz", "--request-timeout=5s").strip() == "ok"
        except LabError:
            return False

    def _delete(self, kind: Path, log: Callable[[str], None]) -> None:
        command = [str(kind), "delete", "cluster", "--name", self.name, "--kubeconfig", str(self.kubeconfig)]
        run(command, what=f"kind delete cluster {self.name}", log=log)
        for path in (self.kubeconfig, self.config_file):
            path.unlink(missing_ok=True)
        for folder in (self.audit_policy.parent, self.audit_log.parent):
            shutil.rmtree(folder, ignore_errors=True)


def image_of_environment() -> str | None:
    """Return the node image that the environment names, if it names one."""
    return os.environ.get(IMAGE_VARIABLE) or None
