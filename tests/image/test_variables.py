# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role refuses wrong variables by name, and only refers to an image that exists. No engine and no containerd is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.role import NODE, Role

REFERENCE = f"registry.example.org/services@sha256:{'1' * 64}"


@pytest.fixture
def role(tmp_path: Path) -> Role:
    """The role without a node."""
    return Role(base="no-base", archives=tmp_path, node=NoNode(), folder=tmp_path)  # type: ignore[arg-type]


class NoNode:
    """A node without containerd."""

    socket = "/nowhere/sock"


def test_wrong_variables_are_refused_by_name(role: Role) -> None:
    hosts = {
        "typo": {"service_image_pul_secrets": []},
        "state": {"service_image_state": "gone"},
        "nothing-named": {"service_image_delivery": "preloaded"},
        "no-registry": {"service_image_delivery": "registry"},
        "two-names": {"service_image_reference": REFERENCE},
        "short-digest": {"service_image_delivery": "preloaded", "service_image_reference": REFERENCE[:-1]},
        "scheme": {"service_image_delivery": "registry", "service_image_registry": "https://registry.example.org:5000/platform/"},
        "slash": {"service_image_delivery": "registry", "service_image_registry": "registry.example.org/"},
        "capitals": {"service_image_delivery": "registry", "service_image_registry": "registry.example.org/Platform"},
    }
    answer = role.run(hosts=hosts)
    assert answer.code == 2 and answer.changed == 0 and set(answer.errors) == set(hosts), answer.output
    assert answer.errors["typo"].startswith("There is no variable service_image_pul_secrets; the nearest is service_image_pull_secrets.")
    assert "service_image_state must be one of: present, absent" in answer.errors["state"]
    assert "set service_image_reference to an image that the nodes have" in answer.errors["nothing-named"]
    assert "or service_image_registry to " in answer.errors["no-registry"]
    assert f"service_image_reference is {REFERENCE[:-1]}, and its digest is not complete" in answer.errors["short-digest"]
    assert "remove service_image_reference" in answer.errors["two-names"]
    for host, good in (
        ("scheme", "registry.example.org:5000/platform"),
        ("slash", "registry.example.org"),
        ("capitals", "registry.example.org/platform"),
    ):
        assert answer.errors[host].startswith(f"service_image_registry is {hosts[host]['service_image_registry']}: set it to the name of")
        assert answer.errors[host].endswith(f", such as {good}"), answer.errors[host]


def test_the_checks_before_an_installation_name_all_wrong_variables_in_one_list(role: Role) -> None:
    answer = role.run(
        tasks_from="check",
        service_image_delivery="registry",
        service_image_engine="nerdctl",
        service_image_registry="registry.example.org/services:1",
        service_image_reference=f"https://{REFERENCE[:-1]}",
    )
    for text in (
        "value of service_image_engine must be one of",
        "remove service_image_reference or service_image_registry",
        "its digest is not complete",
        "remove https://, because the name of an image has no scheme",
        "service_image_registry is registry.example.org/services:1: ",
    ):
        assert text in answer.errors[NODE], answer.output


def test_an_image_of_others_is_only_referred_to(role: Role) -> None:
    preloaded = {"service_image_delivery": "preloaded", "service_image_reference": "services:1"}
    registry = {"service_image_delivery": "registry", "service_image_reference": REFERENCE, "service_image_pull_secrets": ["key"]}
    answer = role.run(hosts={NODE: preloaded, "other": registry})
    assert (answer.code, answer.changed) == (0, 0), answer.output
    assert answer.results == {
        NODE: {"reference": "services:1", "pull_policy": "Never", "pull_secrets": []},
        "other": {"reference": REFERENCE, "pull_policy": "IfNotPresent", "pull_secrets": ["key"]},
    }
