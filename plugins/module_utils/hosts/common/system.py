# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Programs and services of a managed host, and requests that the host sends to itself."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from http.client import HTTPException
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional, TypeVar

from .files import Changes, read_text

Run = Callable[..., tuple[int, str, str]]
"""Runs the words of a command, with a text for its input (``data``). Returns the exit code, the output, and the standard error."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The architectures for which images and libraries are built, by the machine of the kernel."""
ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
Found = TypeVar("Found")


class HostError(Exception):
    """Says what has failed on the host."""


class Answer(NamedTuple):
    """The answer to a request. A server that has not answered has the status -1."""

    status: int
    text: str
    error: str

    def __str__(self) -> str:
        return f"Status code was {self.status} and not [200]: {self.error}"


class Listener(NamedTuple):
    """A program that listens at a port. Without a process it is the kernel, such as its NFS."""

    address: str
    pids: tuple[int, ...]
    unit: str
    program: str


def program_runner(module: Any) -> Run:
    """Return what runs programs with `AnsibleModule`. A program that does not exist has the exit code 127."""
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    module.run_command_environ_update = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "PATH": path}

    def run(words: Sequence[str], data: Optional[str] = None) -> tuple[int, str, str]:
        try:
            code, output, error = module.run_command(list(words), data=data, handle_exceptions=False, expand_user_and_vars=False)
        except OSError as error:
            return 127, "", str(error)
        return code, output, error

    return run


def stop_on_signals() -> None:
    """Let a run that is ended restore what the host had, as after an error."""

    def stop(number: int, _frame: Any) -> None:
        for one in ENDS:
            signal.signal(one, signal.SIG_IGN)
        raise HostError(f"the run was ended by the signal {number}")

    for one in ENDS:
        signal.signal(one, stop)


def run_state(module: Any, host_class: Callable[..., Any], open_url: Callable[..., Any], **options: Any) -> None:
    """Run the method of a host that has the name of the option ``state``, and end the module with its result, which has all ``problems``.

    The host gets the options of the module, and what runs programs, sends requests with more ``options``, and counts changes.
    """
    os.umask(0o022)
    stop_on_signals()
    request = partial(ask, open_url, use_proxy=False, **options)
    changes = Changes(module.check_mode)
    try:
        host = host_class(SimpleNamespace(**module.params), program_runner(module), request, changes)
        result = {"problems": [], **(getattr(host, module.params["state"])() or {})}
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changes.changed, diff=changes.diffs, **result)


def run_checked(run: Run, what: str, words: Sequence[str]) -> str:
    """Run a program, and return its output. Raises HostError with its last lines if it fails."""
    code, output, error = run(words)
    if code != 0:
        raise HostError(f"{what}: {' '.join((error or output).strip().splitlines()[-3:]) or f'{words[0]} has the exit code {code}'}")
    return output


def main_pid(run: Run, unit: str) -> int:
    """Return the process of a service, or 0."""
    output = run(["systemctl", "show", "--property=MainPID", "--value", unit])[1].strip()
    return int(output) if output.isdigit() else 0


def process_value(run: Run, unit: str, name: str) -> str:
    """Return a variable in the environment of the process of a service. It is empty if none runs."""
    found = re.search(rf"(?:^|\0){name}=([^\0]*)", read_text(f"/proc/{main_pid(run, unit)}/environ"))
    return found.group(1) if found else ""


def listeners(run: Run, ports: Collection[str]) -> list[Listener]:
    """Return the programs that listen at one of the ports."""
    found = []
    for line in run(["ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes"])[1].splitlines():
        address = line.split()[3]
        if address.rpartition(":")[2] in ports:
            processes = re.findall(r'\("([^"]*)",pid=(\d+)', line) or [("kernel", 0)]
            units = re.findall(r"/([^/\n]*\.(?:service|scope))", read_text(f"/proc/{processes[0][1]}/cgroup"))
            pids = tuple(int(pid) for _name, pid in processes)
            found.append(Listener(address, pids, units[-1] if units else "", processes[0][0]))
    return found


def port_problems(run: Run, ports: Collection[str], own: Collection[int], secure_port: str = "") -> Iterator[str]:
    """Yield the end of a sentence for each program at a port of the role extended_scheduler that is none of the ``own`` processes."""
    for found in listeners(run, ports):
        if not set(own).intersection(found.pids):
            is_secure = found.address.rpartition(":")[2] == secure_port
            remedy = ", or set extended_scheduler_secure_port to another port" if is_secure else ""
            unit = f", unit {found.unit}" if found.unit else ""
            yield f": {found.address} is used by {found.program} (PID {found.pids[0]}{unit}): stop it{remedy}"


def name_problems(names: Collection[str]) -> Iterator[str]:
    """Yield the end of a sentence for each name that the host does not resolve."""
    for name in names:
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            yield (
                f" does not resolve {name}, the host of a source. The extender has the network of the host, which does not use the DNS "
                "of the cluster: write the cluster IP of the Service on a node, the address of a NodePort, or a name of your own DNS"
            )


def listens(run: Run, unit: str) -> bool:
    """Return whether the process of a service listens at a port."""
    pid = main_pid(run, unit)
    return pid > 0 and f"pid={pid}," in run(["ss", "--listening", "--tcp", "--processes", "--no-header"])[1]


def journal_end(run: Run, unit: str, since_s: float) -> list[str]:
    """Return the last lines of the program of a service, without those of systemd. ``since_s``: seconds since the epoch."""
    # Without --reverse, systemd 252 prints the first lines since a time.
    lines = ["--reverse", "--lines=4", f"--since=@{since_s:.6f}"]
    output = run(["journalctl", "--quiet", f"_SYSTEMD_UNIT={unit}", "--no-pager", "--output=cat", *lines])[1]
    return list(dict.fromkeys(reversed(output.splitlines())))


def klog_error(line: str) -> str:
    """Return the error in a line of a log of Kubernetes, or the line."""
    found = re.search(r' err="((?:[^"\\]|\\.)*)"', line)
    return (found.group(1).replace('\\"', '"') if found else line)[:1000]


def ask(open_url: Callable[..., Any], url: str, **options: Any) -> Answer:
    """Send a request with ``open_url`` of Ansible."""
    try:
        response = open_url(url, timeout=10, **options)
        return Answer(response.getcode(), response.read().decode("utf-8", "replace"), "")
    except (OSError, HTTPException, ValueError) as error:
        return Answer(getattr(error, "code", None) or -1, "", re.sub(r"^(?!HTTP Error)", "Request failed: ", str(error)))


def wait_until(look: Callable[[], Found], is_good: Callable[[Found], bool], *, tries: int, delay_s: float = 1) -> Found:
    """Return the first good value, or the last one."""
    found = look()
    for _again in range(tries - 1):
        if is_good(found):
            break
        time.sleep(delay_s)
        found = look()
    return found
