# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""kube-scheduler on a control-plane host. If the new one does not become healthy, the host gets its earlier manifest again.

previous.yaml exists from before the change of the manifest until the controller has checked the scheduler, too. So a run that was
interrupted meanwhile is continued by the next one.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .common.certificate import read_certificate
from .common.files import Changes, HostFile, read_text
from .common.static_pod import StaticPod
from .common.system import Answer, HostError, Run, klog_error, name_problems, port_problems, wait_until

NAME = "kube-scheduler"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
NOT_CHECKED = re.compile("--(config|secure-port|write-config-to)=")
IDLE_CHECKS = 3
"""The checks, one second apart, in which a container that was started again has no process. The kubelet then waits."""
ENDS = "does not start: its container ends after each start"


class KubeScheduler:
    """A host, and a method for each state of the module kubeadm_scheduler_host, which returns a part of its result.

    ``wanted.plan`` is what the controller has planned for the host.
    """

    def __init__(self, wanted: SimpleNamespace, run: Run, ask: Callable[[str], Answer], changes: Changes) -> None:
        self.wanted, self.plan, self.run, self.ask, self.changes = wanted, wanted.plan, run, ask, changes
        self.configurations, self.backup = Path(wanted.folder, "scheduler"), Path(wanted.folder, "backup")
        self.previous = self.backup / "previous.yaml"
        self.pod = StaticPod(NAME, self.plan.get("node", ""))
        self.earlier_folders = self.pod.folders()
        self.stopped: list[int] = []
        self.idle_checks = 0

    def read(self) -> dict[str, Any]:
        """Return the texts of the host, the name of its Node, and what prevents a change. A file that does not exist has no text."""
        wanted, manifest = self.wanted, ""
        ports = [] if Path(wanted.extender_manifest_path or "/").exists() else wanted.ports
        problems = [wanted.host + problem for problem in (*port_problems(self.run, ports, own=()), *name_problems(wanted.names))]
        try:
            manifest = Path(wanted.manifest_path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            problems.append(
                f"{wanted.host}: {wanted.manifest_path} cannot be read ({error}): set extended_scheduler_manifest_path to the manifest of "
                "kube-scheduler, or remove the host from the control-plane hosts"
            )
        certificate = read_certificate(read_text(KUBELET))
        if not certificate:
            what = f"{wanted.host}: the name of its Node is not known, because {KUBELET} has no certificate"
            problems.append(f"{what}: check that its kubelet works")
        used = re.search(rf"{re.escape(str(self.configurations))}/[^\s/,'\"\]]+", manifest)
        # The kubelet reads each file whose name does not begin with a dot.
        files = [file for file in sorted(Path(wanted.manifest_path).parent.glob("[!.]*")) if file.is_file()]
        others = {str(file): _metadata(read_text(str(file))) for file in files if file.name != Path(wanted.manifest_path).name}
        return {
            "manifest": manifest,
            "original": read_text(str(self.backup / "original.yaml")),
            "previous": read_text(str(self.previous)),
            "config": read_text(used.group()) if used else "",
            "node": certificate.common_name.removeprefix("system:node:") if certificate else "",
            "others": {file: text for file, text in others.items() if NAME in text},
            "problems": problems,
        }

    def checked(self) -> dict[str, Any]:
        """Let the program of the running scheduler check the new configuration. Return the reason why it cannot be used.

        The program runs as root, so its process must be in a container of the static pod. The folder in /proc is held open, so that it
        is the one of the process that was checked. The configuration is the input, so no file is written.
        """
        # After an interrupted run, the kubelet may not have started the new one yet.
        commands = (self.plan["running_words"], self.plan["previous_words"])
        words = [word for word in self.plan["words"] if not NOT_CHECKED.match(word)]
        words += ["--config=/dev/stdin", "--write-config-to=/dev/null", "--secure-port=0"]
        problem = (
            f"no process in a container of {self.pod} has the command of {self.wanted.manifest_path}, so the new configuration cannot be "
            "checked: repair the scheduler, or set extended_scheduler_validate: false"
        )
        if self.plan["is_interrupted"] or self.plan["lacks_config"]:
            problem = ""  # this run repairs it
        for pid in self.pod.with_command(*commands):
            process = Path(f"/proc/{os.getpid()}/fd/{os.open(f'/proc/{pid}', os.O_RDONLY | os.O_DIRECTORY)}")
            if self.pod.runs(process, commands):
                entered = ["nsenter", f"--mount={process}/ns/mnt", f"--pid={process}/ns/pid", "--", *words]
                code, _output, error = self.run(entered, data=self.plan["config"])
                reason = klog_error((error.strip().splitlines() or [f"exit code {code}"])[-1])
                problem = f"kube-scheduler refuses the configuration, which is not used: {reason}" if code else ""
                break
        return {"problems": [f"{self.wanted.host}: {problem}"] if problem else []}

    def present(self) -> None:
        """Write the files, and wait until the scheduler is healthy. Raises HostError after it has restored the earlier manifest."""
        try:
            self._write()
            if not self.changes.dry:
                self._wait(self.plan["words"])
        except BaseException as error:
            raise HostError(self._restore(str(error) or repr(error))) from error

    def kept(self) -> None:
        """Forget the earlier manifest."""
        self.changes.remove(str(self.previous))

    def restored(self) -> None:
        """Restore the earlier manifest, and fail with the reason of the controller."""
        raise HostError(self._restore(self.wanted.reason))

    def tidied(self) -> None:
        """Remove the configurations that no manifest names. Files of others stay, such as a token."""
        for path in self.configurations.glob("*.yaml"):
            if str(path) != self.plan["file"]:
                self.changes.remove(str(path))

    def _restore(self, reason: str) -> str:
        """Restore the earlier manifest, and return the whole message."""
        present, dry = read_text(self.wanted.manifest_path), self.changes.dry
        is_new = present in (self.plan["manifest"], self.plan["read"]) and not dry
        # The log is gone with the pod.
        line = klog_error("".join(self.pod.log_end()[-1:])).rstrip(".") if is_new else ""
        start = f"{self.wanted.host}: {reason.rstrip('.')}.{f' Its log: {line}.' if line else ''}"
        if dry or not self.previous.is_file() or present == self.plan["previous"]:
            outcome = "Its manifest was not changed by this run"
        elif not is_new:
            outcome = "Another program has changed its manifest, which stays as it is"
        else:
            self._replace(self.plan["previous"])
            try:
                self._wait(self.plan["previous_words"])
            except HostError as error:
                return f"{start} The earlier manifest is restored, and then: {error}"
            outcome = "The earlier manifest is restored, and the scheduler is healthy again"
        self.kept()
        return f"{start} {outcome}. The hosts after it were not changed"

    def _write(self) -> None:
        for folder, mode in ((Path(self.wanted.folder), 0o755), (self.configurations, 0o755), (self.backup, 0o700)):
            self.changes.own_folder(str(folder), mode)
        file, dry = self.plan["file"], self.changes.dry
        earlier = read_text(file) if file else ""
        # A kube-scheduler without root must be able to read it. It has no secret.
        differs = bool(file) and self.changes.put(HostFile(file, self.plan["config"]))
        if self.plan["differs"]:
            for name in () if dry else ("original", "previous"):
                HostFile(str(self.backup / f"{name}.yaml"), self.plan[name], mode=0o600).write()
            self._replace(self.plan["manifest"])
        elif earlier and differs and not dry:
            # It may have read the edited file. The kubelet starts it again.
            self.stopped = self.pod.with_command(self.plan["words"])
            for pid in self.stopped:
                os.kill(pid, signal.SIGTERM)

    def _replace(self, text: str) -> None:
        """Replace the manifest, if it is the one that is known. The kubelet ignores the file beside it, whose name begins with a dot."""
        path = self.wanted.manifest_path
        if read_text(path) not in (self.plan["read"], self.plan["manifest"]):
            self.kept()
            raise HostError(f"Another program has changed {path} meanwhile: run the playbook again")
        found = Path(path).stat()
        self.earlier_folders = self.pod.folders()
        self.changes.put(HostFile(path, text, mode=found.st_mode & 0o7777, uid=found.st_uid, gid=found.st_gid))

    def _wait(self, words: Sequence[str]) -> None:
        self.idle_checks = 0
        problem = wait_until(lambda: self._problem(words), lambda found: not found or ENDS in found, tries=max(self.wanted.timeout, 1))
        if problem:
            raise HostError(f"{self.pod} {problem}")

    def _problem(self, words: Sequence[str]) -> str:
        """Return why the scheduler is not healthy. The text is empty if it is."""
        if not set(self.pod.with_command(words)) - set(self.stopped):
            new = [folder for uid, folder in self.pod.folders().items() if uid not in self.earlier_folders]
            self.idle_checks += any(log for folder in new for log in folder.glob("*/[1-9]*.log"))
            absent = f"has no process with the command of the manifest after {self.wanted.timeout} s"
            return ENDS if self.idle_checks >= IDLE_CHECKS else absent
        self.idle_checks = 0
        answer, url = self.ask(self.plan["health_url"]), self.plan["health_url"]
        return "" if answer.status == 200 else f"does not answer at {url} after {self.wanted.timeout} s ({answer})"


def _metadata(text: str) -> str:
    """Return the metadata of a manifest in YAML or JSON. A host has no library for YAML."""
    try:
        return json.dumps({"metadata": json.loads(text)["metadata"]})
    except (KeyError, TypeError, ValueError):
        block = re.search(r"^(['\"]?)metadata\1[ ]*:.*\n(?:(?:[ \t#].*)?\n)*", text + "\n", re.MULTILINE)
        return block.group() if block else ""
