# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons for which node_exporter cannot be installed on a host, and what an installation lacks. Each is a sentence with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..common.system import Answer
from .host import Host
from .wanted import UNITS, Wanted

FIRST_RELEASES = {"Debian": "12", "Ubuntu": "24.04"}
"""The first releases whose package has node_exporter 1.5.0: several listen addresses, and the option web.config.file."""


def host_problems(host: Host) -> list[str]:
    """Return each reason why the role cannot do its work on the host."""
    found, user = [], host.user_of_tasks
    if user:
        found.append(
            f": the tasks run as {user}, and the role needs root: run the playbook with -b (--become), or set ansible_become: true"
        )
    if host.wanted.state == "present":
        found += [*_system_problems(host), *(_use_problems(host) if host.wanted.unit else ())]
    return [host.wanted.host + text for text in found]


def _system_problems(host: Host) -> Iterator[str]:
    facts, is_package = host.wanted.facts, host.wanted.method == "package"
    name, version, manager = facts["distribution"], facts["distribution_version"], facts["service_mgr"]
    to_archive = "set node_exporter_method: archive"
    if host.wanted.unit and manager != "systemd":
        yield (
            f" has {manager} as its service manager, and the role needs systemd: install node_exporter in another way, and set "
            "node_exporter_method: present"
        )
    if is_package and facts["os_family"] != "Debian":
        yield f" runs {name}, and node_exporter_method: package is for Debian and Ubuntu: {to_archive}"
    elif is_package and _version(version) < _version(FIRST_RELEASES.get(name, "")):
        yield f" runs {name} {version}, whose package is older than node_exporter 1.5.0: {to_archive}"
    for interface in (one for one, addresses in host.interfaces.items() if not addresses):
        names_it = "and node_exporter_web_listen_address names it: ip address shows those that it has"
        yield f" has no interface {interface} with a global address, {names_it}"


def _version(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _use_problems(host: Host) -> Iterator[str]:
    """Yield a sentence for each program of others that listens at a wanted address, and for each file that the service cannot read."""
    own = {host.wanted.unit, UNITS.get(host.other, host.wanted.unit)}
    for found in host.listeners:
        if found.unit not in own and in_conflict(found.address, host.addresses):
            replaced = host.wanted.method == "package" and found.unit == UNITS["archive"]
            yield (
                f": {found.address} is used by {found.program} (PID {found.pids[0]}, {f'unit {found.unit}' if found.unit else 'no unit'}): "
                f"{'set node_exporter_method: archive, which replaces it, or ' if replaced else ''}stop it, or set "
                "node_exporter_web_listen_address to another port. If it is a node_exporter that stays, set node_exporter_method: present"
            )
    user, group = host.wanted.system_user, host.wanted.system_group
    missing = "" if host.gid is not None else f". The group does not exist yet: groupadd --system {group}"
    for file, reason in host.unreadable.items():
        allow = f"allow it with chgrp {group} and chmod g+r for the file, and g+x for its folders"
        yield (
            f": {user}, the user of the service, cannot read {file} ({reason}), which node_exporter_tls_server_config names: "
            f"{'create it' if 'No such file' in reason else allow}{missing}"
        )


def in_conflict(address: str, wanted: list[str]) -> bool:
    """Return whether a listener uses one of the wanted addresses, or one of both listens at all addresses.

    0.0.0.0 of another program is all of IPv4. That of node_exporter is all of both, as * is.
    """
    everywhere = {"*", *("[::]" if one.startswith("[") else "0.0.0.0" for one in wanted)}
    anywhere = any(re.match(r"(0\.0\.0\.0|\[::\])?:", one) for one in wanted)
    return anywhere or address in wanted or address.rpartition(":")[0] in everywhere


def is_answer(wanted: Wanted, answer: Answer) -> bool:
    """Return whether node_exporter has answered.

    With hashes only, the password is not known, and 401 is an answer. A server that requires a client certificate ends the connection.
    """
    if answer.status == -1:
        not_reached = r"(?i)refused|timed out|unreachable|no route|assign requested"
        return "Require" in str(wanted.tls_server_config.get("client_auth_type", "")) and not re.search(not_reached, answer.error)
    return answer.status == 200 or (answer.status == 401 and bool(wanted.basic_auth_users) and not wanted.known_user)


def answer_problem(wanted: Wanted, url: str, answer: Answer) -> str:
    """Return why a node_exporter that another tool keeps cannot be used. The text is empty if it can."""
    remedy = "correct node_exporter_web_listen_address, or set node_exporter_method to package or archive"
    if not is_answer(wanted, answer):
        start = "and node_exporter_method is present: start node_exporter there, "
        return f"{wanted.host}: {url} does not answer with metrics ({answer}), {start}{remedy}"
    is_other = answer.status == 200 and "exporter_build_info" not in answer.text
    return f"{wanted.host}: {url} answers, and it is no node_exporter: {remedy}" if is_other else ""


def missing(host: Host, url: str, answer: Answer) -> list[str]:
    """Return what an installation lacks."""
    name, unit, advice = host.wanted.host, host.wanted.unit, "run the playbook onprem.kube_scheduling.site"
    if unit and host.wanted.method not in host.managed:
        return [f"{name} has no {unit} of this role: {advice}"]
    if unit and not host.configuration:
        return [f"{name}: {unit} does not run: see journalctl --unit {unit}"]
    return [] if is_answer(host.wanted, answer) else [f"{name}: {url} does not answer with metrics ({answer}): {advice}"]
