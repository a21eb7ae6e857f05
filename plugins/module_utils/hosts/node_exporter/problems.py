# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons for which node_exporter cannot be installed on a host, and what an installation lacks. Each is a sentence with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..common.system import Answer
from .host import Host, Listener
from .wanted import UNITS, Wanted

FIRST_RELEASES = {"Debian": "12", "Ubuntu": "24.04"}
"""The first releases whose package has node_exporter 1.5.0: several listen addresses, and the option web.config.file."""


def host_problems(host: Host) -> list[str]:
    """Return each reason why the role cannot do its work on the host."""
    found = []
    if host.user_of_tasks:
        found.append(
            f"the tasks run as {host.user_of_tasks}, and the role needs root: run the playbook with -b (--become), or set "
            "ansible_become: true"
        )
    if host.wanted.state == "present":
        found += _system_problems(host)
        if host.wanted.unit:
            found += [*_port_problems(host), *_file_problems(host)]
    name = host.wanted.host
    return [f"{name}{'' if text.startswith(('has ', 'runs ')) else ':'} {text}" for text in found]


def _system_problems(host: Host) -> Iterator[str]:
    wanted, facts = host.wanted, host.wanted.facts
    if wanted.unit and facts["service_mgr"] != "systemd":
        yield (
            f"has {facts['service_mgr']} as its service manager, and the role needs systemd: install node_exporter in another way, and set "
            "node_exporter_method: present"
        )
    if wanted.method == "package" and facts["os_family"] != "Debian":
        yield f"runs {facts['distribution']}, and node_exporter_method: package is for Debian and Ubuntu: set node_exporter_method: archive"
    elif wanted.method == "package" and _version(facts["distribution_version"]) < _version(FIRST_RELEASES.get(facts["distribution"], "0")):
        yield (
            f"runs {facts['distribution']} {facts['distribution_version']}, whose package is older than node_exporter 1.5.0: set "
            "node_exporter_method: archive"
        )
    for interface, addresses in host.interfaces.items():
        if not addresses:
            yield (
                f"has no interface {interface} with a global address, and node_exporter_web_listen_address names it: ip address shows "
                "those that it has"
            )


def _version(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _port_problems(host: Host) -> Iterator[str]:
    """Yield a sentence for each program of others that listens at a wanted address."""
    own = {host.wanted.unit, UNITS.get(host.other, host.wanted.unit)}
    for found in host.listeners:
        if found.unit not in own and in_conflict(found.address, host.addresses):
            replaced = host.wanted.method == "package" and found.unit == UNITS["archive"]
            yield (
                f"{found.address} is used by {found.program} (PID {found.pid}, {_unit_of(found)}): "
                f"{'set node_exporter_method: archive, which replaces it, or ' if replaced else ''}stop it, or set "
                "node_exporter_web_listen_address to another port. If it is a node_exporter that stays, set node_exporter_method: present"
            )


def _unit_of(listener: Listener) -> str:
    return f"unit {listener.unit}" if listener.unit else "no unit"


def in_conflict(address: str, wanted: list[str]) -> bool:
    """Return whether a listener uses one of the wanted addresses, or one of both listens at all addresses.

    0.0.0.0 of another program is all of IPv4. That of node_exporter is all of both, as * is.
    """
    everywhere = {"*", *("[::]" if one.startswith("[") else "0.0.0.0" for one in wanted)}
    anywhere = any(re.match(r"(0\.0\.0\.0|\[::\])?:", one) for one in wanted)
    return anywhere or address in wanted or address.rpartition(":")[0] in everywhere


def _file_problems(host: Host) -> Iterator[str]:
    user, group = host.wanted.system_user, host.wanted.system_group
    for file, reason in host.unreadable.items():
        remedy = f"allow it with chgrp {group} and chmod g+r for the file, and g+x for its folders"
        missing = "" if host.gid is not None else f". The group does not exist yet: groupadd --system {group}"
        yield (
            f"{user}, the user of the service, cannot read {file} ({reason}), which node_exporter_tls_server_config names: "
            f"{'create it' if 'No such file' in reason else remedy}{missing}"
        )


def is_answer(wanted: Wanted, answer: Answer) -> bool:
    """Return whether node_exporter has answered.

    With hashes only, the password is not known, and 401 is an answer. A server that requires a client certificate ends the connection.
    """
    if answer.status == -1:
        not_reached = r"(?i)refused|timed out|unreachable|no route|assign requested"
        return "Require" in str(wanted.tls_server_config.get("client_auth_type", "")) and not re.search(not_reached, answer.error)
    return answer.status == 200 or (answer.status == 401 and bool(wanted.basic_auth_users) and not wanted.known_user[0])


def answer_problems(wanted: Wanted, url: str, answer: Answer) -> list[str]:
    """Return why a node_exporter that another tool keeps cannot be used."""
    if not is_answer(wanted, answer):
        return [
            f"{wanted.host}: {url} does not answer with metrics ({answer}), and node_exporter_method is present: start node_exporter "
            "there, correct node_exporter_web_listen_address, or set node_exporter_method to package or archive"
        ]
    if answer.status == 200 and "exporter_build_info" not in answer.text:
        return [
            f"{wanted.host}: {url} answers, and it is no node_exporter: correct node_exporter_web_listen_address, or set "
            "node_exporter_method to package or archive"
        ]
    return []


def missing(host: Host, url: str, answer: Answer) -> list[str]:
    """Return what an installation lacks."""
    name, unit = host.wanted.host, host.wanted.unit
    if unit and host.wanted.method not in host.managed:
        return [f"{name} has no {unit} of this role: run the playbook onprem.kube_scheduling.site"]
    if unit and not host.configuration:
        return [f"{name}: {unit} does not run: see journalctl --unit {unit}"]
    if not is_answer(host.wanted, answer):
        return [f"{name}: {url} does not answer with metrics ({answer}): run the playbook onprem.kube_scheduling.site"]
    return []
