# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons with which a host is refused, and what an installation lacks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import Listener

from tests.unit.hosts.node_exporter_host import ARCHIVE, SECURED, HostWith, wanted

HASH = "$2b$10$" + "x" * 53
CONFLICT = Listener("*:9100", (812,), "cri-containerd-4f.scope", "node_exporter")
CLIENTS = {"tls_server_config": SECURED["tls_server_config"] | {"client_auth_type": "RequireAndVerifyClientCert"}}
PRESENT = {"method": "present"}


def named(host: HostWith) -> list[str]:
    return [f"{host.name}{text}" for text in host.problems()]


def reasons(
    *listeners: Listener, facts: dict[str, str] | None = None, unreadable: Any = (), managed: Any = (), **variables: Any
) -> list[str]:
    host = HostWith(wanted(facts, **variables), listeners=list(listeners), unreadable=dict(unreadable), managed=list(managed))
    return named(host)


@pytest.mark.parametrize("variables", [{}, ARCHIVE, PRESENT, SECURED])
def test_good_host_has_no_reason(variables: dict[str, Any]) -> None:
    assert reasons(**variables) == []


@pytest.mark.parametrize(
    ("facts", "variables", "text"),
    [
        ({"service_mgr": "openrc"}, ARCHIVE, "node-3 has openrc as its service manager"),
        ({"os_family": "RedHat", "distribution": "Rocky"}, {}, "node-3 runs Rocky, and node_exporter_method: package is for Debian"),
        ({"distribution_version": "11"}, {}, "node-3 runs Debian 11, whose package is older than node_exporter 1.5.0"),
        ({"distribution": "Ubuntu", "distribution_version": "22.04"}, {}, "node-3 runs Ubuntu 22.04, whose package is older"),
        ({}, {"web_listen_address": "eno9:9100"}, "node-3 has no interface eno9 with a global address"),
    ],
)
def test_host_is_refused_by_name(facts: dict[str, str], variables: dict[str, Any], text: str) -> None:
    (found,) = reasons(facts=facts, **variables)
    assert found.startswith(text)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_host_on_which_the_tasks_do_not_run_as_root_is_refused(state: str) -> None:
    (found,) = named(HostWith(wanted(state=state), user_of_tasks="admin"))
    assert found.startswith("node-3: the tasks run as admin, ") and "ansible_become: true" in found


@pytest.mark.parametrize(
    ("address", "listener", "refused"),
    [
        ("0.0.0.0:9100", CONFLICT, True),
        ("0.0.0.0:9100", Listener("127.0.0.1:9100", (812,), "", "nginx"), True),
        ("10.0.0.7:9100", CONFLICT, True),
        ("10.0.0.7:9100", Listener("127.0.0.1:9100", (812,), "", "nginx"), False),
        ("10.0.0.7:9100", Listener("10.0.0.7:9100", (812,), "", "nginx"), True),
        ("[fd00::7]:9100", Listener("[fd00::7]:9100", (812,), "", "nginx"), True),
        ("[fd00::7]:9100", Listener("0.0.0.0:9100", (812,), "", "nginx"), False),
        ("[fd00::7]:9100", Listener("[::]:9100", (812,), "", "nginx"), True),
        ("10.0.0.7:9100", Listener("0.0.0.0:9100", (812,), "", "nginx"), True),
        ("10.0.0.7:9100", Listener("[::]:9100", (812,), "", "nginx"), False),
        ("[::]:9100", Listener("0.0.0.0:9100", (812,), "", "nginx"), True),
        (":9100", Listener("10.0.0.7:9100", (812,), "", "nginx"), True),
        ("0.0.0.0:9100", Listener("*:9100", (812,), "prometheus-node-exporter.service", "prometheus-node"), False),
        ("0.0.0.0:9100", Listener("*:9100", (812,), "node_exporter.service", "node_exporter"), True),
    ],
)
def test_listener_is_refused_if_the_addresses_are_in_conflict(address: str, listener: Listener, refused: bool) -> None:
    assert bool(reasons(listener, web_listen_address=address)) is refused


def test_refusal_names_the_program_its_pid_and_its_unit() -> None:
    (found,) = reasons(CONFLICT)
    assert found.startswith("node-3: *:9100 is used by node_exporter (PID 812, unit cri-containerd-4f.scope): stop it, or set")
    assert reasons(CONFLICT, **PRESENT) == []
    (found,) = reasons(CONFLICT._replace(unit="node_exporter.service"))
    assert "unit node_exporter.service): set node_exporter_method: archive, which replaces it, or stop it, or set" in found


def test_unit_of_the_other_method_is_accepted_only_if_this_role_has_written_it() -> None:
    listener = CONFLICT._replace(unit="prometheus-node-exporter.service")
    assert reasons(listener, managed=["package"], **ARCHIVE) == [] and len(reasons(listener, **ARCHIVE)) == 1


def test_unreadable_key_is_refused_with_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    denied, no_file = {"/etc/tls/key.pem": "Permission denied"}, {"/etc/tls/key.pem": "No such file or directory"}
    (found,) = reasons(unreadable=denied, **SECURED)
    assert found.startswith("node-3: node-exp, ") and "cannot read /etc/tls/key.pem (Permission denied)" in found
    assert "chgrp node-exp and chmod g+r" in found and "groupadd" not in found
    (found,) = reasons(unreadable=no_file, **SECURED)
    assert "create it" in found
    monkeypatch.setattr(HostWith, "gid", None)
    (found,) = reasons(unreadable=denied, **SECURED)
    assert found.endswith("groupadd --system node-exp")


@pytest.mark.parametrize(
    ("answer", "secured", "accepted"),
    [
        (Answer(200, "", ""), {}, True),
        (Answer(401, "", "HTTP Error 401: Unauthorized"), {}, False),
        (Answer(401, "", "HTTP Error 401: Unauthorized"), {"basic_auth_users": {"a": HASH}}, True),
        (Answer(401, "", "HTTP Error 401: Unauthorized"), {"basic_auth_users": {"a": HASH, "b": "word"}}, False),
        (Answer(-1, "", "Request failed: <urlopen error [Errno 111] Connection refused>"), CLIENTS, False),
        (Answer(-1, "", "Request failed: The read operation timed out"), CLIENTS, False),
        (Answer(-1, "", "Request failed: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert certificate required"), CLIENTS, True),
        (Answer(-1, "", "Request failed: [Errno 104] Connection reset by peer"), CLIENTS, True),
        (Answer(-1, "", "Request failed: [Errno 104] Connection reset by peer"), {}, False),
    ],
)  # fmt: skip
def test_end_of_the_connection_is_an_answer_only_of_a_server_that_requires_certificates(
    answer: Answer, secured: dict[str, Any], accepted: bool
) -> None:
    assert HostWith(wanted(**secured)).is_answer(answer) is accepted


URL = "http://127.0.0.1:9100/metrics"
METRICS = 'node_exporter_build_info{version="1"} 1'


def test_a_program_that_is_no_node_exporter_is_refused() -> None:
    host = HostWith(wanted(**PRESENT))
    assert host.missing(Answer(200, METRICS, "")) == []
    (found,) = host.missing(Answer(200, "up 1", ""))
    assert found.startswith(f"node-3: {URL} answers, and it is no node_exporter: correct node_exporter_web_listen_address, or set ")
    (found,) = host.missing(Answer(404, "", "HTTP Error 404: Not Found"))
    assert "does not answer with metrics (Status code was 404 and not [200]: HTTP Error 404: Not Found): start node_exporter there" in found


@pytest.mark.parametrize(
    ("contents", "answer", "text"),
    [
        ({}, Answer(200, METRICS, ""), "node-3 has no prometheus-node-exporter.service of this role"),
        ({"managed": ["package"]}, Answer(200, METRICS, ""), "node-3: prometheus-node-exporter.service does not run"),
        ({"managed": ["package"], "configuration": "1"}, Answer(503, "", "x"), f"node-3: {URL} does not answer with metrics (Status code"),
        (
            {"managed": ["package"], "configuration": "1"},
            Answer(200, "up 1", ""),
            f"node-3: {URL} answers, and it is no node_exporter: run",
        ),
    ],
)
def test_what_is_missing_is_named(contents: dict[str, Any], answer: Answer, text: str) -> None:
    (found,) = HostWith(wanted(), **contents).missing(answer)
    assert found.startswith(text)
    assert HostWith(wanted(), managed=["package"], configuration="1").missing(Answer(200, METRICS, "")) == []
