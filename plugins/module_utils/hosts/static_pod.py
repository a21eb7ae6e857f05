# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A static pod with a kubeconfig of its own on a host of kubeadm. A manifest that does not work is replaced by the one before it."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .common.certificate import read_certificate
from .common.files import Changes, HostFile, read_text
from .common.static_pod import StaticPod, values_of
from .common.system import Answer, HostError, Run, klog_error, listeners, wait_until

OWN_FILES = re.compile(r"\.?(kubeconfig|config(-[0-9a-f]{12})?\.yml|extender-[0-9]+(-[0-9a-f]{12})?\.yaml)([.-].*)?")
"""The files of the static pods of this collection in their folders, also those that an interrupted run has not renamed."""

HEADER = "# Ansible writes this file with the collection onprem.kube_scheduling. The next run replaces it.\n"
"""The first line of a manifest. The rest is JSON, which is YAML too, so that the host reads it with Python's own library."""
MARK = "STATIC_POD_FILES"
"""The environment variable of each container with the hash of the manifest and of the files that the programs read."""
ANNOTATION = "kube-scheduling.onprem/files-hash"

CLUSTER_FIELDS = re.compile(r"^ *(?:server|certificate-authority-data): \S+$", re.MULTILINE)
LOOPBACK = {"127.0.0.1", "0.0.0.0", "*", "[::]", "[::ffff:127.0.0.1]"}
DAY_S = 86400
DELAY_S = 2
SITE = "run the playbook onprem.kube_scheduling.site"


class StaticPodHost:
    """A host, and a method for each state of the module static_pod_host, which returns a part of its result."""

    def __init__(self, wanted: SimpleNamespace, run: Run, ask: Callable[[str], Answer], changes: Changes) -> None:
        self.wanted, self.run, self.ask, self.changes = wanted, run, ask, changes
        self.pod = StaticPod(wanted.name)
        self.kubeconfig = read_text(f"{wanted.folder}/kubeconfig")
        self.names = sorted(path.name for path in Path(wanted.folder).glob("*"))
        folder, name = os.path.split(wanted.manifest_path)
        # The kubelet does not read names that begin with a dot. Without an earlier manifest the file is empty.
        self.previous = Path(folder, f".{name}.previous")

    def checked(self) -> dict[str, Any]:
        """Return the reasons why the host cannot have the static pod."""
        host, wanted, found = self.wanted.host, self.wanted, []
        others = [name for name in self.names if not OWN_FILES.fullmatch(name)]
        if others:
            found.append(
                f"{host}: critical_rescuer_static_folder is {wanted.folder}, which has other files ({', '.join(others)[:200]}): "
                f"set it to a folder that only the static pod {wanted.name} uses"
            )
        if self._is_used_by_others(wanted.port):
            what = f"{host}: another program uses port {wanted.port}, which the static pod needs"
            found.append(f"{what}: set critical_rescuer_port to a free port")
        return {"problems": found}

    def present(self) -> None:
        """Write the files, and wait until the static pod is ready. Raises HostError with the reason, after it has restored the manifest."""
        wanted = self.wanted
        texts = {"kubeconfig": self._current_kubeconfig(), **wanted.settings}
        self.changes.own_folder(wanted.folder, 0o700, wanted.uid)
        for file in self._files(texts):
            self.changes.put(file)
        if not wanted.pod:
            return
        in_use = read_text(wanted.manifest_path)
        text, mark = marked(with_earlier(wanted.pod, in_use) if wanted.with_earlier else wanted.pod, texts)
        manifest = HostFile(wanted.manifest_path, text, mode=0o600)
        # What an interrupted run has kept stays, because the present manifest may not work.
        if not self.changes.dry and not manifest.is_there() and not self.previous.is_file():
            HostFile(str(self.previous), in_use, mode=0o600).write()
        self.changes.put(manifest)
        if not self.changes.dry:
            timeout_s, since_s = wanted.wait_timeout, time.time()
            tries = timeout_s // DELAY_S + 1
            reason = wait_until(lambda: self._unready(mark), lambda found: not found, tries=tries, delay_s=DELAY_S) if timeout_s else ""
            if reason:
                raise HostError(self._restore(reason, since_s))
            self.previous.unlink(missing_ok=True)
            for name in filter(OWN_FILES.fullmatch, self.names):
                if name not in text and name not in texts:
                    self.changes.remove(f"{wanted.folder}/{name}")

    def absent(self) -> None:
        """Remove the manifest, and the files after the programs have ended: they use the kubeconfig until then."""
        wanted = self.wanted
        if self._is_of_another_cluster():
            return
        self.changes.remove(wanted.manifest_path)
        if not self.changes.dry:
            left = wait_until(self.pod.processes, lambda found: not found, tries=wanted.wait_timeout)
            if left:
                raise HostError(
                    f"{wanted.host}: {wanted.manifest_path} is removed, and the static pod {wanted.name} still runs after "
                    f"{wanted.wait_timeout} s (PID {', '.join(map(str, left))}). Its files stay until it has ended. "
                    f"See the log of the kubelet on {wanted.host} (journalctl --unit kubelet), and run this again"
                )
        own = [str(self.previous), *(f"{wanted.folder}/{name}" for name in filter(OWN_FILES.fullmatch, self.names)), wanted.folder]
        for path in own + [str(path) for pattern in map(Path, wanted.leftovers) for path in pattern.parent.glob(pattern.name)]:
            self.changes.remove(path)
            self.changes.remove_empty(path)

    def verified(self) -> dict[str, Any]:
        """Return what is missing."""
        wanted, pod = self.wanted, f"{self.wanted.host}: the static pod {self.wanted.name}"
        texts = {"kubeconfig": self.kubeconfig, **wanted.settings}
        text, mark = marked(wanted.pod, texts)
        is_there = Path(wanted.manifest_path).is_file() and not self._is_of_another_cluster()
        problems, remarks = [], []
        if not is_there:
            problems.append(f"{pod} is not installed: {SITE}")
        elif read_text(wanted.manifest_path) != text or not all(file.is_there() for file in self._files(texts)):
            problems.append(f"{pod} is not as the variables say: {SITE}")
        else:
            reason = self._unready(mark)
            problems += [f"{pod} is not ready: {reason}: see journalctl --unit kubelet on {wanted.host}"] if reason else []
        certificate = read_certificate(self.kubeconfig)
        days = (certificate.not_after - time.time()) / DAY_S if certificate else -1
        what = f"the client certificate of the static pod {wanted.name}"
        if days < 0:
            state = "has expired" if certificate else "is missing"
            problems.append(f"{wanted.host}: {what} {state}: {SITE}, which makes it")
        else:
            remarks.append(f"{wanted.host}: {what} expires in {int(days)} days")
        return {"problems": problems, "remarks": remarks, "is_there": is_there}

    def _files(self, texts: Mapping[str, str]) -> list[HostFile]:
        """Return the files of the folder, which only the user of the pod can enter."""
        folder, uid = self.wanted.folder, self.wanted.uid
        return [HostFile(f"{folder}/{name}", text, 0o600, uid, uid, shown=name != "kubeconfig") for name, text in texts.items()]

    def _current_kubeconfig(self) -> str:
        """Return the kubeconfig in use, or a new one if the certificate ends soon, or the user, the server or the authority differ."""
        wanted, used = self.wanted, self.kubeconfig
        config = wanted.kubeadm_config or "/dev/stdin"
        words = [wanted.kubeadm, "kubeconfig", "user", f"--client-name={wanted.user}", f"--config={config}"]
        # The output has the private key, so no error shows it.
        code, made, error = self.run(words, data=wanted.cluster)
        if code != 0:
            reason = " ".join(error.strip().splitlines()[-3:]) or f"it has the exit code {code}"
            raise HostError(f"{wanted.host}: {wanted.kubeadm} kubeconfig user made no kubeconfig: {reason}")
        found = read_certificate(used)
        lasts = found and found.common_name == wanted.user and found.not_after - time.time() >= wanted.renew_days * DAY_S
        return used if lasts and CLUSTER_FIELDS.findall(used) == CLUSTER_FIELDS.findall(made) else made

    def _is_of_another_cluster(self) -> bool:
        """Return whether the kubelet of the host runs the pod on none of the given Nodes."""
        names = {f"kube-system_{self.wanted.name}-{node}" for node in self.wanted.nodes}
        return bool(names) and names.isdisjoint(folder.name.rpartition("_")[0] for folder in self.pod.folders().values())

    def _unready(self, mark: str) -> str:
        """Return the reason why the wanted pod does not work. An earlier container that does not work may be the reason for its removal."""
        if not any(f"{MARK}={mark}" in values_of(process, "environ") for process in self.pod.processes().values()):
            return f"no process of {self.wanted.manifest_path} runs"
        for port in [port["containerPort"] for container in _containers(self.wanted.pod) for port in container.get("ports", [])]:
            if self._is_used_by_others(port):
                return f"another program uses port {port}"
            answer = self.ask(f"http://127.0.0.1:{port}/readyz")
            if answer.status != 200:
                return f"http://127.0.0.1:{port}/readyz: {answer}"
        return ""

    def _restore(self, reason: str, since_s: float) -> str:
        """Restore the manifest that worked before. Return the whole message."""
        wanted, log = self.wanted, self.pod.log_end()
        options = ["--unit=kubelet", "--output=cat", "--lines=1", f"--since=@{since_s:.0f}", f"--grep=Error syncing pod.*{wanted.name}-"]
        kubelet = self.run(["journalctl", "--quiet", *options])[1]
        reason += f". The kubelet says: {klog_error(kubelet)[:300]}" if ' err="' in kubelet else ""
        reason += f". Its log ends with: {' | '.join(log)}" if log else ""
        if not self.previous.is_file():
            outcome = "Its manifest has not changed"
        elif self.previous.stat().st_size:
            self.previous.replace(wanted.manifest_path)
            outcome = "The manifest that worked before is restored"
        else:
            for path in (wanted.manifest_path, str(self.previous)):
                self.changes.remove(path)
            outcome = "There was none before, so its manifest is removed"
        return (
            f"{wanted.host}: the static pod {wanted.name} is not ready after {wanted.wait_timeout} s: {reason}. {outcome}. If its image is "
            f"missing (ErrImageNeverPull, ErrImagePull), {SITE}, which delivers it. Otherwise correct the variables, and run this again"
        )

    def _is_used_by_others(self, port: int) -> bool:
        """Return whether programs outside of the static pod listen at this port of the host's own address."""
        found = [listener for listener in listeners(self.run, {str(port)}) if listener.address.rpartition(":")[0] in LOOPBACK]
        return any(set(listener.pids).isdisjoint(self.pod.processes()) for listener in found)


def with_earlier(pod: Mapping[str, Any], manifest: str) -> dict[str, Any]:
    """Return the pod with the containers of a manifest in use that it does not have. A name belongs to one port."""
    try:
        earlier = _containers(json.loads(manifest.removeprefix(HEADER)))
    except (AttributeError, ValueError):  # it is of another program
        earlier = []
    names = [container["name"] for container in _containers(pod)]
    containers = _containers(pod) + [container for container in earlier if container["name"] not in names]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def marked(pod: Mapping[str, Any], files: Mapping[str, str]) -> tuple[str, str]:
    """Return the manifest, and the hash that its containers have. A change of a file changes the hash, so the kubelet replaces the pod."""
    made, mark = copy.deepcopy({**pod}), {"name": MARK, "value": ""}
    annotations = made.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[ANNOTATION] = ""
    for container in _containers(made):
        container["env"] = [*(one for one in container.get("env", []) if one["name"] != MARK), mark]
    found = hashlib.sha256(json.dumps([made, files], sort_keys=True).encode()).hexdigest()[:12]
    mark["value"] = annotations[ANNOTATION] = found
    return HEADER + json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n", found


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod.get("spec", {}).get("containers", [])
    return found
