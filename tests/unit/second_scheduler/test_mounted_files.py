# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of Secrets and ConfigMaps that the settings of extenders name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.second_scheduler.requested import PROMETHEUS, files

TOKEN = "/etc/extender/secrets/prometheus/token"
CA = "/etc/extender/configmaps/prometheus-ca/ca.crt"


def named(made: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["kind"], one["name"], one["key"]) for one in made["extenders"][0]["files"]]


def test_files_that_the_sources_of_a_preset_name_are_mounted() -> None:
    login = {"bearer_token_file": TOKEN, "tls": {"ca_file": CA, "cert_file": f"{TOKEN[:-5]}tls.crt", "key_file": f"{TOKEN[:-5]}tls.key"}}
    made = files(prometheus_urls=PROMETHEUS, sources={"prometheus": login})
    assert made["mistakes"] == []
    assert named(made) == [
        ("ConfigMap", "prometheus-ca", "ca.crt"),
        ("Secret", "prometheus", "tls.crt"),
        ("Secret", "prometheus", "tls.key"),
        ("Secret", "prometheus", "token"),
    ]
    folders = {one["folder"]: one["volume"] for one in made["extenders"][0]["files"]}
    assert list(folders) == ["/etc/extender/configmaps/prometheus-ca", "/etc/extender/secrets/prometheus"]
    assert len(set(folders.values())) == 2 and all(len(volume) < 63 for volume in folders.values())


def test_each_extender_has_only_the_files_that_it_names() -> None:
    settings = {"profiles": {"*": {"agents": [{"name": "network_traffic"}]}}}
    entries = [{"prioritizeVerb": "prioritize", "weight": 1}]
    with_token = {**settings, "sources": {"prometheus": {"urls": PROMETHEUS, "basic_auth": {"username": "a", "password_file": TOKEN}}}}
    made = files(extenders=[{"settings": settings, "entries": entries}, {"settings": with_token, "entries": entries}])
    assert made["mistakes"] == []
    assert [len(extender["files"]) for extender in made["extenders"]] == [0, 1]


@pytest.mark.parametrize(
    ("sources", "setting"),
    [
        ({"prometheus": {"bearer_token_file": "/srv/token"}}, "sources.prometheus.bearer_token_file /srv/token"),
        ({"prometheus": {"bearer_token_file": "/etc/extender/secrets/a"}}, "sources.prometheus.bearer_token_file /etc/extender/secrets/a"),
        ({"prometheus": {"tls": {"ca_file": f"{CA}/more"}}}, f"sources.prometheus.tls.ca_file {CA}/more"),
        ({"prometheus": {"tls": {"ca_file": "/etc/extender/secrets/../x/y"}}}, "sources.prometheus.tls.ca_file"),
        ({"kubernetes": {"kubeconfig": "config"}}, "sources.kubernetes.kubeconfig config"),
    ],
)
def test_file_that_no_object_has_is_a_mistake_with_the_form_of_a_path(sources: dict[str, Any], setting: str) -> None:
    (mistake,) = files(prometheus_urls=PROMETHEUS, sources=sources)["mistakes"]
    assert mistake.startswith(f"extended_scheduler_sources has {setting}")
    assert "write /etc/extender/secrets/NAME/KEY " in mistake and "in kube-system" in mistake


def test_static_pod_has_files_of_its_host() -> None:
    """A static pod cannot use Secrets and ConfigMaps."""
    made = files(shape="kubeadm", prometheus_urls=PROMETHEUS, sources={"prometheus": {"bearer_token_file": "/etc/kube-scheduling/token"}})
    assert made["mistakes"] == [] and named(made) == []
    (mistake,) = files(shape="kubeadm", prometheus_urls=PROMETHEUS, sources={"prometheus": {"bearer_token_file": TOKEN}})["mistakes"]
    assert mistake.startswith(f"extended_scheduler_sources has sources.prometheus.bearer_token_file {TOKEN}, ")
    assert "of extended_scheduler_folder" in mistake and mistake.endswith("write /etc/kube-scheduling/token")


def test_unit_of_systemd_reads_files_of_its_host() -> None:
    made = files(shape="systemd", prometheus_urls=PROMETHEUS, sources={"prometheus": {"bearer_token_file": "/etc/prometheus/token"}})
    assert made["mistakes"] == [] and named(made) == []
    (mistake,) = files(shape="systemd", prometheus_urls=PROMETHEUS, sources={"prometheus": {"bearer_token_file": "token"}})["mistakes"]
    assert mistake.startswith("extended_scheduler_sources has sources.prometheus.bearer_token_file token: ")
