# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated cluster: bring it up, adopt it, talk to it, break single components, take it down.

This is what tests and the demo use; the command line is a thin layer over it.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import binaries, control_plane, credentials, etcd, etcd_bulk_load, manifests, nodes, ports
from lab.api import ApiClient
from lab.audit import AuditLog
from lab.components import Component, ComponentStatus, components
from lab.errors import LabError
from lab.kwok_config import Variant, variant_named
from lab.layout import Layout, cache_dir
from lab.locks import locked
from lab.progress import silent
from lab.scenario import Scenario, load

Log = Callable[[str], None]
PORT_TIMEOUT_S = 10.0
TAINT_TIMEOUT_S = 60.0
CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that the node controller adds to a cordoned node, and removes some time after `uncordon`."""


def up(
    folder: Path | str,
    name: str,
    *,
    scenario: Scenario | Path | str | None = None,
    variant: Variant | str = "standard",
    prometheus: bool = False,
    log: Log = print,
) -> Cluster:
    """Bring a cluster up, or adopt the one that runs in `folder`; returns when its control plane is ready.

    A running cluster whose components died is repaired; one that cannot be repaired is created again, with a message.
    Nodes of the scenario that exist are not changed. Raises LabError, with nothing left running.
    """
    layout = Layout.of(folder, name)
    variant = variant_named(variant) if isinstance(variant, str) else variant
    wanted = {"name": name, "kubernetes": binaries.kubernetes_version(), "variant": variant.name, "prometheus": prometheus}
    plan = load(scenario) if isinstance(scenario, str | Path) else scenario
    with locked(_lock_file(layout), why=f"which works on cluster {name}", log=log):
        if _adopt(layout, wanted, log):
            _add_nodes(layout, plan, log)
        else:
            _create(layout, wanted, variant, plan, log)
    return Cluster(layout)


@dataclass(frozen=True)
class Cluster:
    """Handle of one cluster. It holds no process: everything is read from the cluster's folder."""

    layout: Layout

    @classmethod
    def at(cls, folder: Path | str, name: str) -> Cluster:
        """Handle of a cluster that may or may not run."""
        return cls(Layout.of(folder, name))

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def folder(self) -> Path:
        return self.layout.folder

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def server(self) -> str:
        return control_plane.server_of(self.layout)

    @property
    def api(self) -> ApiClient:
        """A client of its own; keep it where many requests are sent."""
        return ApiClient(self.layout, self.server)

    def exists(self) -> bool:
        """Return whether the cluster was started and has not been removed since then."""
        return self.layout.state.exists()

    def down(self, *, log: Log = silent) -> None:
        """End all processes of the cluster and remove its files; a cluster that is not there is fine."""
        with locked(_lock_file(self.layout), why=f"which works on cluster {self.name}", log=log):
            count = control_plane.destroy(self.layout)
        log(f"cluster {self.name} is down: {count} processes ended, none is left")

    def status(self) -> list[ComponentStatus]:
        """Component, process id and whether it lives, in starting order."""
        return [component.status() for component in components(self.layout)]

    def wait_ready(self, timeout_s: float = control_plane.READY_TIMEOUT_S) -> None:
        """Wait until all components are healthy and namespaces get their default service account."""
        control_plane.wait_healthy(self.layout, timeout_s=timeout_s, log=silent)
        self.wait_namespace("default", timeout_s=timeout_s)

    def wait_namespace(self, name: str, *, timeout_s: float = 30.0) -> None:
        """Wait until pods can be created in a namespace, i.e. until its default service account is there."""
        deadline = time.monotonic() + timeout_s
        api = self.api
        while api.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default").status != http.client.OK:
            if time.monotonic() > deadline:
                raise LabError(f"Namespace {name}: no default service account after {timeout_s:.0f} s")
            time.sleep(0.02)

    def address(self, component: str) -> str:
        """Return the URL of a component, such as http://127.0.0.1:20005 for prometheus."""
        found = self._component(component)
        return f"{found.health_scheme}://{found.health_address}"

    def kill(self, component: str, *, signal: signal.Signals = signal.SIGKILL) -> None:
        """End one component and wait until its process has ended."""
        self._component(component).end(signal)

    def start(self, component: str, *, timeout_s: float = control_plane.READY_TIMEOUT_S) -> None:
        """Start a component again with the command line it had, and wait until it is healthy."""
        found = self._component(component)
        if found.pid is None:
            # A killed process is a zombie as soon as its main thread is; its other threads may hold the port a little longer.
            ports.wait_until_free(int(found.health_address.rpartition(":")[2]), timeout_s=PORT_TIMEOUT_S)
        found.start()
        found.wait_healthy(timeout_s=timeout_s)

    def repair(self, *, log: Log = print) -> None:
        """Start the components that have ended again, as a kubelet does, and wait until all are healthy."""
        control_plane.repair(self.layout, log)

    def pause(self, component: str) -> None:
        """Stop the process of a component with SIGSTOP: its port stays open, but requests get no response."""
        self._component(component).send(signal.SIGSTOP)

    def resume(self, component: str) -> None:
        self._component(component).send(signal.SIGCONT)

    def logs(self, component: str) -> str:
        """Return the log of a component up to now."""
        return self._component(component).log_file.read_text(errors="replace")

    def audit(self) -> AuditLog:
        return AuditLog(self.layout.audit_log)

    def binary(self, name: str) -> Path:
        """Path of a program of the lab. Processes started by this path end with the cluster."""
        path = self.layout.bin / name
        if not path.exists():
            known = ", ".join(program.name for program in binaries.PROGRAMS)
            raise LabError(f"cluster {self.name} has no program {name!r}; known are {known}")
        return path

    def kubectl(self, *args: str, input: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints; a failure raises with its message."""
        command = [str(self.binary("kubectl")), "--kubeconfig", str(self.kubeconfig)]
        command += ["--cache-dir", str(self.layout.kubectl_cache), *args]
        result = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise LabError(f"kubectl {' '.join(args)}: {result.stderr.strip()}")
        return result.stdout

    def apply(self, manifest: manifests.Manifest | list[manifests.Manifest] | str) -> None:
        """Server-side apply of one object, several, or YAML text."""
        manifests.apply(self.api, manifest)

    def cordon(self, *names: str) -> None:
        """Close nodes to new pods. Raises LabError if the node controller does not taint them in time."""
        self._set_unschedulable(names, True)

    def uncordon(self, *names: str) -> None:
        """Open nodes to new pods again, which also need the end of the taint. Raises LabError if it does not end in time."""
        self._set_unschedulable(names, None)

    def get(self, path: str) -> dict[str, Any]:
        """Decoded object at an API path such as /api/v1/namespaces/default/pods."""
        return self.api.get(path)

    def service_account(self, name: str, *, namespace: str = "default", cluster_role: str | None = "cluster-admin") -> Path:
        """kubeconfig of a service account, made if needed.

        Unlike the administrator it is subject to priority-and-fairness, and to RBAC when `cluster_role` is None.
        """
        return credentials.write_service_account(
            self.layout, self.server, self.api, name=name, namespace=namespace, cluster_role=cluster_role
        )

    def add_nodes(self, scenario: Scenario | Path | str, *, log: Log = silent) -> None:
        """Create a scenario's missing nodes and wait until they are Ready."""
        plan = scenario if isinstance(scenario, Scenario) else load(scenario)
        nodes.create(self.api, plan, etcd_address=self._component("etcd").health_address, log=log)

    def bulk_load(self, objects: Iterable[dict[str, Any]]) -> int:
        """Write thousands of valid objects straight into etcd, see `lab.etcd_bulk_load`; returns how many they were."""
        return etcd_bulk_load.load(self._component("etcd").health_address, objects)

    def bulk_unload(self, kind: str, namespace: str) -> None:
        """Remove what `bulk_load` has stored of a kind in a namespace, see `lab.etcd_bulk_load`."""
        etcd_bulk_load.unload(self._component("etcd").health_address, kind, namespace)

    def compact(self) -> int:
        """Remove old revisions, so that continue tokens and resource versions expire, see `lab.etcd.compact`.

        The API server still serves lists from its cache unless its feature gate ListFromCacheSnapshot is off.
        """
        return etcd.compact(self._component("etcd").health_address)

    def _set_unschedulable(self, names: tuple[str, ...], value: bool | None) -> None:
        api = self.api
        for name in names:
            api.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": value}})
        deadline_s = time.monotonic() + TAINT_TIMEOUT_S
        for name in names:
            while any(taint["key"] == CORDONED for taint in api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", ())) is not bool(value):
                if time.monotonic() > deadline_s:
                    raise LabError(f"the node controller has not changed the taint {CORDONED} of {name} in {TAINT_TIMEOUT_S:.0f} s")
                time.sleep(0.02)

    def _component(self, name: str) -> Component:
        known = components(self.layout)
        for component in known:
            if component.name == name:
                return component
        names = ", ".join(component.name for component in known) or "none, it is not up"
        raise LabError(f"cluster {self.name} has no component {name!r}; it has: {names}")


def _adopt(layout: Layout, wanted: dict[str, Any], log: Log) -> bool:
    """Take over the cluster that is there; False when there is none, or none that can be saved."""
    if not layout.state.exists():
        return False
    state = json.loads(layout.state.read_text())
    if state != wanted:
        raise LabError(f"cluster {layout.name} in {layout.folder} was brought up as {state}, not as {wanted}: take it down first")
    known = components(layout)
    if known and all(component.healthy() for component in known):
        log(f"cluster {layout.name} is up already")
        return True
    try:
        control_plane.repair(layout, log)
    except LabError as error:
        log(f"cluster {layout.name} could not be repaired, making another one: {error}")
        return False
    return True


def _add_nodes(layout: Layout, plan: Scenario | None, log: Log) -> None:
    if plan:
        Cluster(layout).add_nodes(plan, log=log)


def _create(layout: Layout, wanted: dict[str, Any], variant: Variant, plan: Scenario | None, log: Log) -> None:
    started = time.monotonic()
    prometheus = binaries.prometheus(log) if wanted["prometheus"] else None
    folder = binaries.ensure(log)
    log(f"cluster {layout.name}: starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok")
    control_plane.create(layout, binaries=folder, variant=variant, prometheus=prometheus, log=log)
    try:
        Cluster(layout).wait_ready()
        log(f"cluster {layout.name} is ready after {time.monotonic() - started:.1f} s: {layout.kubeconfig}")
        for manifest in variant.manifests():
            Cluster(layout).apply(manifest)
        _add_nodes(layout, plan, log)
        layout.state.write_text(json.dumps(wanted))
    except BaseException:
        control_plane.clean_up_failed_start(layout, log)
        raise


def _lock_file(layout: Layout) -> Path:
    return cache_dir() / "locks" / hashlib.sha256(str(layout.folder).encode()).hexdigest()[:16]
