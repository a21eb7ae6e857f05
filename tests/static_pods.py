# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traces of a static pod on its host, as a kubelet makes them: a cgroup, and a folder for the logs."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import trustme
import yaml

from tests.integration.workloads import wait_until
from tests.not_run import not_run

ROOT = next((path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)
"""The root of the processes, with version 1 or version 2 of cgroups."""
LOGS = Path("/var/log/pods")
AUTHORITY = trustme.CA()


@contextlib.contextmanager
def made_cgroup(name: str) -> Iterator[Path]:
    """Make a cgroup, and remove it after its processes have ended."""
    if ROOT is None:
        not_run("there are no cgroups")
    folder = ROOT / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        not_run(f"no cgroup can be made: {error}")
    try:
        yield folder
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the end of the processes")
    finally:
        while folder != ROOT and not [path for path in folder.iterdir() if path.is_dir()]:
            folder.rmdir()
            folder = folder.parent


@contextlib.contextmanager
def static_pod(name: str, node: str = "cp-1") -> Iterator[Path]:
    """Make the cgroup of a container of a static pod on a node. Its processes must end before the pod does."""
    uid = uuid4().hex
    parents = [path for path in (LOGS, *LOGS.parents) if not path.exists()]
    folder = LOGS / f"kube-system_{name}-{node}_{uid}"
    folder.mkdir(parents=True)
    try:
        with made_cgroup(f"kubepods/burstable/pod{uid}/container") as cgroup:
            yield cgroup
    finally:
        for path in [folder, *parents]:
            with contextlib.suppress(OSError):  # another test uses it
                path.rmdir()


def issued_kubeconfig(days: float = 365, user: str = "rescuer", server: str = "https://10.0.0.1:6443", authority: str = "QQ==") -> str:
    """Return what kubeadm prints for a user whose certificate ends after some days."""
    ends = datetime.now(UTC) + timedelta(days=days)
    certificate = AUTHORITY.issue_cert("localhost", common_name=user, not_after=ends).cert_chain_pems[0].bytes()
    return (
        f"clusters:\n- cluster:\n    certificate-authority-data: {authority}\n    server: {server}\nusers:\n- user:\n"
        f"    client-certificate-data: {base64.b64encode(certificate).decode()}\n    client-key-data: S2V5{time.time_ns()}\n"
    )


def enter(cgroup: Path, pid: int) -> None:
    """Move a process into a cgroup."""
    (cgroup / "cgroup.procs").write_text(str(pid))


SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextlib.contextmanager
def running_kubelet(manifest: Path, name: str) -> Iterator[None]:
    """Run a program for each container while the manifest is there. That of a broken image does not answer /readyz at its port."""
    end = threading.Event()
    thread = threading.Thread(target=_run_until, args=[end, manifest, name])
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _run_until(end: threading.Event, manifest: Path, name: str) -> None:
    text = ""
    with contextlib.ExitStack() as stack:
        while not end.wait(0.1):
            found = manifest.read_text() if manifest.exists() else ""
            if found != text:
                text = found
                stack.close()
                if text:
                    cgroup = stack.enter_context(static_pod(name))
                    for container in yaml.safe_load(text)["spec"]["containers"]:
                        _start(container, cgroup, stack)


def _start(container: dict[str, Any], cgroup: Path, stack: contextlib.ExitStack) -> None:
    port = 0 if "broken" in container["image"] else container["ports"][0]["containerPort"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    words = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(cgroup), sys.executable, "-c", SERVER, str(port)]
    process = stack.enter_context(subprocess.Popen(words, env=environment))
    stack.callback(process.kill)
