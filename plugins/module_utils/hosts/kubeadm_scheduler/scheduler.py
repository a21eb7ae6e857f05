# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Change kube-scheduler on a control-plane host. If the new one does not become healthy, the host gets its earlier manifest again.

previous.yaml exists from before the change of the manifest until the controller has checked the scheduler, too. So a run that was
interrupted meanwhile is continued by the next one.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.files import Changes, HostFile, read_text
from ..common.static_pod import StaticPod
from ..common.system import Answer, HostError, klog_error, wait_until
from .reading import NAME, Place

NOT_CHECKED = re.compile("--(config|secure-port|write-config-to)=")
IDLE_CHECKS = 3
"""The checks, one second apart, in which a container that was started again has no process. The kubelet then waits."""
ENDS = "does not start: its container ends after each start"


class KubeScheduler:
    """kube-scheduler of one host, and what the controller has planned for it. In check mode (``dry``) nothing is changed."""

    def __init__(self, place: Place, plan: Mapping[str, Any], ask: Callable[[str], Answer], *, timeout_s: int, dry: bool) -> None:
        self.place, self.plan, self.ask, self.timeout_s = place, plan, ask, timeout_s
        self.pod = StaticPod(NAME, place.node)
        self.changes = Changes(dry)
        self.earlier_folders = self.pod.folders()
        self.stopped: list[int] = []
        self.idle_checks = 0

    def check(self, run: Callable[..., tuple[int, str, str]]) -> list[str]:
        """Let the program of the running scheduler check the new configuration. Return the reason why it cannot be used.

        The program runs as root, so its process must be in a container of the static pod. The folder in /proc is held open, so that it
        is the one of the process that was checked. The configuration is the input, so no file is written.
        """
        # After an interrupted run, the kubelet may not have started the new one yet.
        commands = (self.plan["running_words"], self.plan["previous_words"])
        words = [word for word in self.plan["words"] if not NOT_CHECKED.match(word)]
        words += ["--config=/dev/stdin", "--write-config-to=/dev/null", "--secure-port=0"]
        for pid in self.pod.with_command(*commands):
            descriptor = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
            process = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
            if self.pod.runs(process, commands):
                entered = ["nsenter", f"--mount={process}/ns/mnt", f"--pid={process}/ns/pid", "--", *words]
                code, _output, error = run(entered, data=self.plan["config"])
                reason = klog_error((error.strip().splitlines() or [f"exit code {code}"])[-1])
                return [f"{self.place.host}: kube-scheduler refuses the configuration, which is not used: {reason}"] if code else []
        if self.plan["is_interrupted"] or self.plan["lacks_config"]:
            return []  # this run repairs it
        return [
            f"{self.place.host}: no process in a container of {self.pod} has the command of {self.place.manifest_path}, so the new "
            "configuration cannot be checked: repair the scheduler, or set extended_scheduler_validate: false"
        ]

    def present(self) -> None:
        """Write the files, and wait until the scheduler is healthy. Raises HostError after it has restored the earlier manifest."""
        try:
            self._write()
            if not self.changes.dry:
                self._wait(self.plan["words"])
        except BaseException as error:
            raise HostError(self.restore(str(error) or repr(error))) from error

    def is_kept(self) -> bool:
        """Return whether the change has begun, and has neither ended nor been restored."""
        return Path(self.place.backup("previous")).is_file()

    def restore(self, reason: str) -> str:
        """Restore the earlier manifest, and return the whole message."""
        present = read_text(self.place.manifest_path)
        is_new = present in (self.plan["manifest"], self.plan["read"]) and not self.changes.dry
        # The log is gone with the pod.
        line = klog_error("".join(self.pod.log_end()[-1:])).rstrip(".") if is_new else ""
        start = f"{self.place.host}: {reason.rstrip('.')}.{f' Its log: {line}.' if line else ''}"
        if self.changes.dry or not self.is_kept() or present == self.plan["previous"]:
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
        self.keep()
        return f"{start} {outcome}. The hosts after it were not changed"

    def keep(self) -> None:
        """Forget the earlier manifest."""
        if not self.changes.dry:
            Path(self.place.backup("previous")).unlink(missing_ok=True)

    def tidy(self, file: str, mark: str) -> None:
        """Remove the configurations and the settings that no manifest names. Files of others stay, such as a token."""
        unused = [path for path in self.place.configurations.glob("*.yaml") if str(path) != file]
        settings = Path(self.place.folder, "extender").glob("extender-[0-9]*.yaml")
        for path in (*unused, *(path for path in settings if not path.name.endswith(f"{mark}.yaml"))):
            self.changes.remove(str(path))

    def _write(self) -> None:
        for folder, mode in ((".", 0o755), ("scheduler", 0o755), ("backup", 0o700)):
            path = Path(self.place.folder, folder)
            if not self.changes.dry:
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(mode)
        file = self.plan["file"]
        earlier = read_text(file) if file else ""
        # A kube-scheduler without root must be able to read it. It has no secret.
        differs = bool(file) and self.changes.put(HostFile(file, self.plan["config"]))
        if self.plan["differs"]:
            if not self.changes.dry:
                for name in ("original", "previous"):
                    HostFile(self.place.backup(name), self.plan[name], mode=0o600).write()
            self._replace(self.plan["manifest"])
        elif earlier and differs and not self.changes.dry:
            # It may have read the edited file. The kubelet starts it again.
            self.stopped = self.pod.with_command(self.plan["words"])
            for pid in self.stopped:
                os.kill(pid, signal.SIGTERM)

    def _replace(self, text: str) -> None:
        """Replace the manifest, if it is the one that is known. The kubelet ignores the file beside it, whose name begins with a dot."""
        path = self.place.manifest_path
        if read_text(path) not in (self.plan["read"], self.plan["manifest"]):
            self.keep()
            raise HostError(f"Another program has changed {path} meanwhile: run the playbook again")
        found = Path(path).stat()
        self.earlier_folders = self.pod.folders()
        self.changes.put(HostFile(path, text, mode=found.st_mode & 0o7777, uid=found.st_uid, gid=found.st_gid))

    def _wait(self, words: Sequence[str]) -> None:
        self.idle_checks = 0
        problem = wait_until(lambda: self._problem(words), lambda found: not found or ENDS in found, tries=max(self.timeout_s, 1))
        if problem:
            raise HostError(problem)

    def _problem(self, words: Sequence[str]) -> str:
        """Return why the scheduler is not healthy. The text is empty if it is."""
        if not set(self.pod.with_command(words)) - set(self.stopped):
            logs = [
                log for uid, folder in self.pod.folders().items() if uid not in self.earlier_folders for log in folder.glob("*/[1-9]*.log")
            ]
            self.idle_checks += bool(logs)
            if self.idle_checks >= IDLE_CHECKS:
                return f"{self.pod} {ENDS}"
            return f"{self.pod} has no process with the command of the manifest after {self.timeout_s} s"
        self.idle_checks = 0
        answer = self.ask(self.plan["health_url"])
        return (
            "" if answer.status == 200 else f"{self.pod} does not answer at {self.plan['health_url']} after {self.timeout_s} s ({answer})"
        )
