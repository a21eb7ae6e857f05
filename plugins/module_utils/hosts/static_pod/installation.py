# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A static pod with a kubeconfig of its own on a host of kubeadm. A manifest that does not work is replaced by the one before it."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..common.certificate import read_certificate
from ..common.files import Changes, HostFile, read_text
from ..common.static_pod import StaticPod
from ..common.system import Answer, HostError, Run, klog_error, listeners, wait_until
from .manifest import MARK, marked, ports, read_pod, with_earlier

OWN_FILES = re.compile(r"\.?(kubeconfig|config(-[0-9a-f]{12})?\.yml|extender-[0-9]+(-[0-9a-f]{12})?\.yaml)([.-].*)?")
"""The files of the static pods of this collection in their folders, also those that an interrupted run has not renamed."""

PUBLIC_FIELDS = re.compile(r"^ *(server|certificate-authority-data|client-certificate-data): (\S+)$", re.MULTILINE)
LOOPBACK = {"127.0.0.1", "0.0.0.0", "*", "[::]", "[::ffff:127.0.0.1]"}
DAY_S = 86400
DELAY_S = 2
SITE = "run the playbook onprem.kube_scheduling.site"


class StaticPodHost:
    """One run on a host, with the options of the module static_pod_host. In check mode (``dry``) nothing is changed."""

    def __init__(self, wanted: SimpleNamespace, run: Run, ask: Callable[[str], Answer], *, dry: bool) -> None:
        self.wanted, self.run, self.ask = wanted, run, ask
        self.pod = StaticPod(wanted.name)
        self.dry = dry
        self.changes = Changes(dry)
        self.kubeconfig = f"{wanted.folder}/kubeconfig"
        folder, name = os.path.split(wanted.manifest_path)
        # The kubelet does not read names that begin with a dot. Without an earlier manifest the file is empty.
        self.previous = Path(folder, f".{name}.previous")

    def problems(self) -> list[str]:
        """Return the reasons why the host cannot have the static pod."""
        host, wanted, found = self.wanted.host, self.wanted, []
        others = [name for name in self._names() if not OWN_FILES.fullmatch(name)]
        if others:
            found.append(
                f"{host}: critical_rescuer_static_folder is {wanted.folder}, which has other files ({', '.join(others)[:200]}): "
                f"set it to a folder that only the static pod {wanted.name} uses"
            )
        if self._is_used_by_others(wanted.port):
            what = f"{host}: another program uses port {wanted.port}, which the static pod needs"
            found.append(f"{what}: set critical_rescuer_port to a free port")
        return found

    def present(self) -> None:
        """Write the files, and wait until the static pod is ready. Raises HostError with the reason, after it has restored the manifest."""
        wanted = self.wanted
        kubeconfig = self._current_kubeconfig()
        self._write_files({"kubeconfig": kubeconfig}, shown=False)
        self._write_files(wanted.settings)
        if not wanted.pod:
            return
        pod = with_earlier(wanted.pod, read_pod(read_text(wanted.manifest_path))) if wanted.with_earlier else wanted.pod
        text, mark = marked(pod, {"kubeconfig": kubeconfig, **wanted.settings})
        manifest = HostFile(wanted.manifest_path, text, mode=0o600)
        # What an interrupted run has kept stays, because the present manifest may not work.
        if not self.dry and not manifest.is_there() and not self.previous.is_file():
            HostFile(str(self.previous), read_text(wanted.manifest_path), mode=0o600).write()
        self.changes.put(manifest)
        if not self.dry:
            # An earlier extender that does not work may be the reason for its removal.
            self._wait(wanted.pod, mark)
            self.previous.unlink(missing_ok=True)
            for name in self._own_files():
                if name != "kubeconfig" and name not in text and name not in wanted.settings:
                    self.changes.remove(f"{wanted.folder}/{name}")

    def absent(self) -> None:
        """Remove the manifest, and the files after the programs have ended: they use the kubeconfig until then."""
        wanted = self.wanted
        if self._is_of_another_cluster():
            return
        self.changes.remove(wanted.manifest_path)
        if not self.dry:
            left = wait_until(self.pod.processes, lambda found: not found, tries=wanted.wait_timeout)
            if left:
                raise HostError(
                    f"{wanted.host}: {wanted.manifest_path} is removed, and the static pod {wanted.name} still runs after "
                    f"{wanted.wait_timeout} s (PID {', '.join(map(str, left))}). Its files stay until it has ended. "
                    f"See the log of the kubelet on {wanted.host} (journalctl --unit kubelet), and run this again"
                )
        for path in [*(f"{wanted.folder}/{name}" for name in self._own_files()), str(self.previous)]:
            self.changes.remove(path)
        self.changes.remove_empty(wanted.folder)
        for path in [str(path) for pattern in map(Path, wanted.leftovers) for path in pattern.parent.glob(pattern.name)]:
            self.changes.remove(path)
            self.changes.remove_empty(path)

    def verified(self) -> dict[str, Any]:
        """Return what is missing."""
        wanted, host, name = self.wanted, self.wanted.host, self.wanted.name
        text, mark = marked(wanted.pod, {"kubeconfig": read_text(self.kubeconfig), **wanted.settings})
        is_there = Path(wanted.manifest_path).is_file() and not self._is_of_another_cluster()
        has_settings = all(self._file(*item).is_there() for item in wanted.settings.items())
        problems, remarks = [], []
        if not is_there:
            problems.append(f"{host}: the static pod {name} is not installed: {SITE}")
        elif read_text(wanted.manifest_path) != text or not has_settings:
            problems.append(f"{host}: the static pod {name} is not as the variables say: {SITE}")
        else:
            reason = self._unready(wanted.pod, mark)
            problems += [f"{host}: the static pod {name} is not ready: {reason}: see journalctl --unit kubelet on {host}"] if reason else []
        certificate = read_certificate(_public_fields(read_text(self.kubeconfig)).get("client-certificate-data", ""))
        days = (certificate.not_after - time.time()) / DAY_S if certificate else -1
        if days < 0:
            state = "has expired" if certificate else "is missing"
            problems.append(f"{host}: the client certificate of the static pod {name} {state}: {SITE}, which makes it")
        else:
            remarks.append(f"{host}: the client certificate of the static pod {name} expires in {int(days)} days")
        return {"problems": problems, "remarks": remarks, "is_there": is_there}

    def _names(self) -> list[str]:
        """The names of the files in the folder, which may not exist."""
        folder = Path(self.wanted.folder)
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def _own_files(self) -> list[str]:
        return [name for name in self._names() if OWN_FILES.fullmatch(name)]

    def _write_files(self, texts: Mapping[str, str], *, shown: bool = True) -> None:
        """Write files into the folder, which only the user of the pod can enter."""
        folder, uid = Path(self.wanted.folder), self.wanted.uid
        self.changes.do(not folder.is_dir(), folder.mkdir, 0o755, True)
        if folder.is_dir():
            found = folder.stat()
            self.changes.do((found.st_uid, found.st_gid) != (uid, uid), os.chown, folder, uid, uid)
            self.changes.do(stat.S_IMODE(found.st_mode) != 0o700, folder.chmod, 0o700)
        for name, text in texts.items():
            self.changes.put(self._file(name, text, shown=shown))

    def _file(self, name: str, text: str, *, shown: bool = True) -> HostFile:
        return HostFile(f"{self.wanted.folder}/{name}", text, mode=0o600, uid=self.wanted.uid, gid=self.wanted.uid, shown=shown)

    def _current_kubeconfig(self) -> str:
        """Return the kubeconfig in use, or a new one if the certificate ends soon, or the user, the server or the authority differ."""
        wanted, used = self.wanted, read_text(self.kubeconfig)
        config = wanted.kubeadm_config or "/dev/stdin"
        words = [wanted.kubeadm, "kubeconfig", "user", f"--client-name={wanted.user}", f"--config={config}"]
        # The output has the private key, so no error shows it.
        code, made, error = self.run(words, data=wanted.cluster)
        if code != 0:
            reason = " ".join(error.strip().splitlines()[-3:]) or f"it has the exit code {code}"
            raise HostError(f"{wanted.host}: {wanted.kubeadm} kubeconfig user made no kubeconfig: {reason}")
        fields, new_fields = _public_fields(used), _public_fields(made)
        certificate = read_certificate(fields.pop("client-certificate-data", ""))
        new_fields.pop("client-certificate-data", "")
        lasts = certificate and certificate.not_after - time.time() >= wanted.renew_days * DAY_S
        return used if lasts and certificate and certificate.common_name == wanted.user and fields == new_fields else made

    def _is_of_another_cluster(self) -> bool:
        """Return whether the kubelet of the host runs the pod on none of the given Nodes."""
        names = {f"kube-system_{self.wanted.name}-{node}" for node in self.wanted.nodes}
        return bool(names) and names.isdisjoint(folder.name.rpartition("_")[0] for folder in self.pod.folders().values())

    def _unready(self, pod: Mapping[str, Any], mark: str) -> str:
        """Return the reason why the pod of this manifest does not work. It is empty if it works."""
        if not any(f"{MARK}={mark}" in environment for environment in self.pod.environments().values()):
            return f"no process of {self.wanted.manifest_path} runs"
        for port in ports(pod):
            if self._is_used_by_others(port):
                return f"another program uses port {port}"
            answer = self.ask(f"http://127.0.0.1:{port}/readyz")
            if answer.status != 200:
                return f"http://127.0.0.1:{port}/readyz: {answer}"
        return ""

    def _wait(self, pod: Mapping[str, Any], mark: str) -> None:
        timeout_s, since_s = self.wanted.wait_timeout, time.time()
        if timeout_s:
            reason = wait_until(lambda: self._unready(pod, mark), lambda found: not found, tries=timeout_s // DELAY_S + 1, delay_s=DELAY_S)
            if reason:
                raise HostError(self._restore(reason, since_s))

    def _restore(self, reason: str, since_s: float) -> str:
        """Restore the manifest that worked before. Return the whole message."""
        wanted = self.wanted
        log = self.pod.log_end()
        options = ["--unit=kubelet", "--output=cat", "--lines=1", f"--since=@{since_s:.0f}", f"--grep=Error syncing pod.*{wanted.name}-"]
        kubelet = self.run(["journalctl", "--quiet", *options])[1]
        reason += f". The kubelet says: {klog_error(kubelet)[:300]}" if ' err="' in kubelet else ""
        reason += f". Its log ends with: {' | '.join(log)}" if log else ""
        outcome = "Its manifest has not changed"
        if self.previous.is_file():
            earlier = read_text(str(self.previous))
            outcome = "The manifest that worked before is restored" if earlier else "There was none before, so its manifest is removed"
            if earlier:
                self.previous.replace(wanted.manifest_path)
            else:
                Path(wanted.manifest_path).unlink(missing_ok=True)
                self.previous.unlink()
        return (
            f"{wanted.host}: the static pod {wanted.name} is not ready after {wanted.wait_timeout} s: {reason}. {outcome}. If its image is "
            f"missing (ErrImageNeverPull, ErrImagePull), {SITE}, which delivers it. Otherwise correct the variables, and run this again"
        )

    def _is_used_by_others(self, port: int) -> bool:
        """Return whether programs outside of the static pod listen at this port of the host's own address."""
        found = [listener for listener in listeners(self.run, {str(port)}) if listener.address.rpartition(":")[0] in LOOPBACK]
        return any(set(listener.pids).isdisjoint(self.pod.processes()) for listener in found)


def _public_fields(kubeconfig: str) -> dict[str, str]:
    return dict(PUBLIC_FIELDS.findall(kubeconfig))
