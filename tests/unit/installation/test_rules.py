# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules of roles and playbooks for their variables: one table for each."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules import site

from tools import tables
from tools.paths import ROOT

RULES = "ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules"
GROUPS = {"all": ["cp-1", "node-1"], "kube_control_plane": ["cp-1"]}
IMAGE = "registry.example.org/services:1"
READ = {"groups": GROUPS, "ansible_limit": None, "__extended_scheduler_limited": ["cp-1", "node-1"], "__extended_scheduler_files": {}}
GOOD: dict[str, dict[str, Any]] = {
    "spread_cronjob": {"image": IMAGE},
    "critical_rescuer": {"image": IMAGE},
    "extended_scheduler": {"extender_image": IMAGE},
    "service_image": {"delivery": "archive"},
}
"""The variables without the prefix with which a role has no mistake."""
SUM = "ab" * 32
SYSTEMD = {"shape": "systemd", "hosts": ["node-1"], "binary_path": "/srv/kube-scheduler"}
STATIC = {"form": "static_pod"}
OWN = {"__awx_own_presets": {"always": {}, "weekend": {"days": "Sat-Sun", "times": "00:00-24:00", "time_zone": "UTC"}}}


def mistakes(rule: str, variables: dict[str, Any]) -> list[str]:
    rules = site if hasattr(site, rule) else importlib.import_module(f"{RULES}.{rule}")
    return list(getattr(rules, rule if rules is site else "mistakes")(variables))


def of_role(role: str, given: dict[str, Any], **read: Any) -> list[str]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = {name: option.get("default") for name, option in spec.items()}
    return mistakes(role, defaults | READ | {f"{role}_{name}": value for name, value in (GOOD[role] | given).items()} | read)


@pytest.mark.parametrize("role", GOOD)
def test_a_role_with_good_variables_has_no_mistake(role: str) -> None:
    assert of_role(role, {}) == []


@pytest.mark.parametrize(
    ("role", "given", "text"),
    [
        ("spread_cronjob", {"image": ""}, "spread_cronjob_image is empty: "),
        ("spread_cronjob", {"settings": {"interval": "1m"}}, "spread_cronjob_settings has the interval 1m: each Job of a CronJob "),
        ("spread_cronjob", {"form": "deployment", "settings": {"interval": "0m"}}, "spread_cronjob_settings has the interval 0m: a Depl"),
        (
            "spread_cronjob",
            {"settings": {"scheduler_config": "configmap:a/b/c, /x"}},
            "spread_cronjob_settings has the scheduler_config /x,",
        ),
        ("critical_rescuer", {"image": ""}, "critical_rescuer_image is empty: "),
        ("critical_rescuer", {"manifest_path": "x"}, "critical_rescuer_manifest_path is x: set it to an absolute path on the hosts"),
        ("critical_rescuer", {"state": "absent", "image": "", "static_folder": "/x/"}, "critical_rescuer_static_folder is /x/: "),
        ("critical_rescuer", {"settings": {"listen_address": ":1"}}, "critical_rescuer_settings has listen_address: remove it"),
        ("critical_rescuer", {"settings": {"scheduler_config": ["/x"]}}, "critical_rescuer_settings has the scheduler_config /x,"),
        ("critical_rescuer", STATIC | {"static_hosts": ["cp-9"]}, "critical_rescuer_static_hosts has cp-9, which is not in the inventory"),
        ("critical_rescuer", STATIC | {"image_pull_secrets": ["key"]}, "critical_rescuer_image_pull_secrets is set, and a static pod "),
        ("critical_rescuer", {"static_user": "system:x"}, "critical_rescuer_static_user is system:x: "),
        ("extended_scheduler", {"extender_image": ""}, "extended_scheduler_extender_image is empty: "),
        ("extended_scheduler", {"render_to": "/x"}, "extended_scheduler_image is empty: "),
        ("extended_scheduler", {"shape": "kubeadm", "hosts": ["cp-9"]}, "--limit "),
        ("extended_scheduler", {"shape": "kubeadm", "folder": "etc/"}, "extended_scheduler_folder is etc/: "),
        ("extended_scheduler", {"shape": "kubeadm", "user": "system:admin"}, "extended_scheduler_user is system:admin: "),
        ("extended_scheduler", {"shape": "kubeadm", "image_pull_secrets": ["key"]}, "extended_scheduler_image_pull_secrets is set, "),
        ("extended_scheduler", {"shape": "kubeadm", "wait_timeout": 10}, "extended_scheduler_wait_timeout is 10: "),
        ("extended_scheduler", SYSTEMD | {"hosts": []}, "extended_scheduler_shape is systemd, and there is no host for it: set ext"),
        ("extended_scheduler", SYSTEMD | {"binary_path": ""}, "there is no kube-scheduler to install: "),
        ("extended_scheduler", SYSTEMD | {"binary_archive": "/x"}, "extended_scheduler_binary_path and extended_scheduler_binary_archive "),
        (
            "extended_scheduler",
            SYSTEMD | {"binary_path": "", "binary_archive": "/x", "binary_checksum": "sha256:ab"},
            "extended_scheduler_binary_checksum is sha256:ab: ",
        ),
        ("extended_scheduler", SYSTEMD | {"scheduler_kubeconfig": "/x"}, "only one of extended_scheduler_scheduler_kubeconfig and "),
        ("extended_scheduler", SYSTEMD | {"secure_port": 65536}, "extended_scheduler_secure_port is 65536: "),
        ("extended_scheduler", SYSTEMD | {"scheduler_user": ""}, "extended_scheduler_scheduler_user is empty: "),
        ("service_image", {"delivery": "preloaded"}, "service_image_delivery is preloaded, and no image is named: "),
        (
            "service_image",
            {"reference": IMAGE},
            f"service_image_reference is {IMAGE}, and service_image_delivery is archive, which builds ",
        ),
        ("service_image", {"delivery": "preloaded", "reference": "x@sha256:ab"}, "service_image_reference is x@sha256:ab, and its digest "),
        (
            "service_image",
            {"delivery": "preloaded", "reference": "https://x/y"},
            "service_image_reference is https://x/y: remove https://,",
        ),
        (
            "service_image",
            {"delivery": "registry", "registry": "https://r.example.org/Up/"},
            "service_image_registry is https://r.example.org/Up/: ",
        ),
    ],
)
def test_each_wrong_variable_of_a_role_is_named(role: str, given: dict[str, Any], text: str) -> None:
    read = {"ansible_limit": "node-1", "groups": {"all": ["cp-9"]}} if text == "--limit " else {}
    found = of_role(role, given, **read)
    assert len(found) == 1 and found[0].startswith(text), found


def test_mistakes_of_the_extenders_and_a_port_of_one_of_them_are_named() -> None:
    files = {"mistakes": ["extended_scheduler_profiles: wrong"], "extenders": [{"port": 5501, "status_port": 5502}]}
    found = of_role("extended_scheduler", SYSTEMD | {"secure_port": 5502}, __extended_scheduler_files=files)
    assert found[0] == files["mistakes"][0] and found[1].startswith("extended_scheduler_secure_port is 5502: ") and len(found) == 2
    assert of_role("extended_scheduler", {"state": "absent", "extender_image": ""}, __extended_scheduler_files=files) == []


def test_a_disabled_rescuer_and_an_interval_that_is_no_duration_need_no_more() -> None:
    assert of_role("critical_rescuer", {"enabled": False, "image": "", "static_user": "system:x"}) == []
    assert of_role("spread_cronjob", {"settings": {"interval": "soon"}}) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, ""),
        ({"credential": "kubeconfig"}, "awx_setup_kubeconfig_path is not set: "),
        ({"credential": "bearer_token", "api_host": "https://x"}, "awx_setup_api_host and awx_setup_api_token are not both set: "),
        (
            {"clusters": {"a": "s3cret"}},
            'awx_setup_clusters: the value of a is no mapping of variables: write "a": {KEY: VALUE}, or "a": {}',
        ),
        ({"nodes": {"g": {"n": ["s3cret"], "m": None}}}, "awx_setup_nodes: the value of n in g is no mapping of variables: "),
        ({"nodes": {True: "s3cret", "none": None}}, "awx_setup_nodes: the value of True is no mapping of hosts: write true: {HOST: "),
        ({"schedule_preset": "night"}, "awx_setup_schedule_preset is night: it must be one of always, weekend, or of "),
        (
            {"schedule_preset": "weekend", "schedule_windows": "x"},
            "awx_setup_schedule_preset and awx_setup_schedule_windows are both set: ",
        ),
        ({"schedule_presets": {"a": {"days": "Mon"}}}, "awx_setup_schedule_presets has a with other values than days, times and time_zone"),
        (
            {"schedule_presets": {"a": {"days": " ", "times": "x", "time_zone": "x"}}},
            "awx_setup_schedule_presets has a with other values than days, times and time_zone, or with an empty one",
        ),
        ({"schedule_presets": {"a": {}}}, ""),
        ({"schedule_presets": {True: {}}}, "awx_setup_schedule_presets has the name True, which is no text: "),
    ],
)
def test_each_wrong_variable_of_awx_is_named_without_a_value_that_may_be_a_password(given: dict[str, Any], text: str) -> None:
    defaults = {name: option.get("default") for name, option in tables.variables("awx")["__awx_argument_spec"].items()}
    found = mistakes("awx", defaults | OWN | {f"awx_setup_{name}": value for name, value in given.items()})
    assert len(found) == bool(text) and all(one.startswith(text) and "s3cret" not in one for one in found), found


GROUP = {"name": "site_node_hosts", "pattern": "kube_node", "hosts": [], "remedy": "add nodes"}
CLUSTERS = {
    "__site_clusters": ["a", "b"],
    "__site_has_static_rescuer": True,
    "__site_has_scheduler": True,
    "__site_scheduler_uses_hosts": False,
    "__site_scheduler_shape": "kubeadm",
    "critical_rescuer_static_hosts": None,
    "extended_scheduler_hosts": None,
    "hostvars": {
        "a": {"service_image_registry": "a", "service_image_pull_secrets": ["a"]},
        "b": {"service_image_registry": "b", "service_image_pull_secrets": ["b"]},
    },
}
STATES = dict.fromkeys(("spread_cronjob_state", "critical_rescuer_state", "extended_scheduler_state"), "absent")
STATES |= {"critical_rescuer_enabled": True, "__site_found_marks": [], "__site_scheduler_uses_hosts": False}
VERSIONS = {
    "__site_minimum_versions": {"ansible_core": "2.18", "kubernetes_core": "6.2.0", "kubernetes": "1.26"},
    "ansible_version": {"full": "2.18.0"},
    "__site_max_clock_skew_s": 10,
}
LIMIT = {"ansible_limit": "node-1", "__site_clusters": ["localhost"], "__site_cluster_hosts": "localhost"}
FAILED = {
    "__site_groups": [GROUP | {"hosts": ["node-1", "node-2"]}],
    "ansible_play_hosts_all": ["localhost", "node-1", "node-2", "node-3"],
    "ansible_play_hosts": ["localhost"],
    "hostvars": {"localhost": {"__site_failed": ["a", "b"]}, "node-1": {"__site_failed": ["a"]}, "node-2": {}, "node-3": {}},
}
NODES = {
    "__site_node_parts": ["service_image", "node_exporter"],
    "__site_nodes": ["node-1", "node-2", "of-another-run"],
    "__site_exporters": ["node-2"],
    "__site_delivered": ["node-2"],
    "__site_lost_texts": ["node-1: no space"],
    "ansible_play_hosts_all": ["localhost", "node-1", "node-2"],
}
PINGED = {"__site_ping": {"ping": "pong"}}
LEFT = {
    "__site_nodes": ["a", "b", "c"],
    "__site_node_hosts": "kube_node",
    "__site_limited": ["a", "b"],
    "hostvars": {"a": {}, "b": {"__site_image_error": "no\nanswer"}},
}
VERIFIED = {
    "__site_node_hosts": "kube_node",
    "__site_delivery": "archive",
    "__site_nodes": ["a", "b", "c"],
    "__site_verified_hosts": ["a", "b", "c"],
    "__site_failed": ["CronJob x/y is missing"],
    "hostvars": {
        "a": PINGED | {"__site_delivery_error": "no space"},
        "b": {"__site_ping": {"unreachable": True}},
        "c": PINGED | {"__site_failed": ["an error\nof two lines", "c has no image"]},
    },
}


@pytest.mark.parametrize(
    ("rules", "variables", "texts"),
    [
        ("site_tags", {"ansible_skip_tags": ["verify"]}, []),
        ("site_tags", {"ansible_skip_tags": ["verify", "preflight"]}, ["--skip-tags preflight would skip the checks"]),
        ("site_groups", {"__site_groups": [GROUP | {"hosts": ["x"]}], "__site_serial": ["20%", 1]}, []),
        (
            "site_groups",
            {"__site_groups": [GROUP], "__site_serial": "2x"},
            ["site_node_hosts is kube_node, and no host", "site_serial has 2x: "],
        ),
        (
            "site_clusters",
            CLUSTERS,
            ["service_image_registry is not the same for a, b: ", "critical_rescuer_form is static_pod for several "],
        ),
        ("site_clusters", CLUSTERS | {"__site_clusters": ["a"]}, []),
        ("site_render", {"__site_changes": ["spread_cronjob"], "spread_cronjob_render_to": "/x"}, ["spread_cronjob_render_to is set, "]),
        ("site_render", {"__site_changes": ["spread_cronjob"], "spread_cronjob_render_to": "", "critical_rescuer_render_to": "/x"}, []),
        ("uninstall", STATES, []),
        ("uninstall", STATES | {"__site_found_marks": ["kube-scheduling-extender"]}, ["the schedulers of the cluster have profiles of"]),
        ("site_cluster", VERSIONS | {"__site_cluster": None}, []),
        ("site_cluster", VERSIONS | {"__site_cluster": {"version": "v1.26.1+k3s1", "kubernetes_core": "6.10.0"}}, []),
        (
            "site_cluster",
            VERSIONS | {"ansible_version": {"full": "2.9.1"}, "__site_cluster": {"version": "v1.9.0", "kubernetes_core": "6.1.9"}},
            ["ansible-core is 2.9.1: update it to 2.18 ", "kubernetes.core is 6.1.9: update it to ", "Kubernetes is 1.9.0: update it to "],
        ),
        ("site_cluster", VERSIONS | {"__site_cluster": {"clock_skew_s": -10}}, []),
        ("site_cluster", VERSIONS | {"__site_cluster": {"clock_skew_s": -11}}, ["the clock of the controller is 11 s behind the clock"]),
        ("site_limit", LIMIT | {"ansible_limit": None}, []),
        ("site_limit", LIMIT | {"__site_limited": ["node-1", "localhost"]}, []),
        ("site_limit", LIMIT | {"__site_limited": ["node-1"]}, ["--limit node-1 leaves out localhost, "]),
        (
            "site_failed",
            FAILED,
            ["Nothing was changed. Failed checks:", "a", "b", "no host of site_node_hosts can be reached (node-1, node-2): "],
        ),
        ("site_failed", FAILED | {"ansible_play_hosts": ["node-2"], "hostvars": {key: {} for key in FAILED["hostvars"]}}, []),
        (
            "site_nodes",
            NODES,
            [
                "node_exporter was not installed on node-1. See the ",
                "The image was not delivered to node-1. See the error of each node above, ",
            ],
        ),
        ("site_nodes", NODES | {"__site_node_parts": []}, []),
        ("site_nodes", NODES | {"__site_node_parts": ["node_exporter"]}, ["node_exporter was not installed on node-1. See the "]),
        (
            "uninstall_image",
            LEFT,
            [
                "The image on b, if an archive was delivered: no answer",
                "The image on c, if an archive was delivered, because of --limit.",
            ],
        ),
        (
            "uninstall_image",
            LEFT | {"__site_nodes": []},
            ["The image on the nodes, if an archive was delivered, because no host matches site_n"],
        ),
        (
            "verify_hosts",
            VERIFIED,
            [
                "CronJob x/y is missing",
                "a did not get the image: no space",
                "b has failed or could not be reached, ",
                "c: an error of two lines",
                "c has no image",
            ],
        ),
        (
            "verify_hosts",
            VERIFIED | {"__site_nodes": [], "__site_verified_hosts": [], "__site_failed": None},
            ["site_node_hosts is kube_node, and"],
        ),
        (
            "uninstall",
            STATES | {"spread_cronjob_state": "present", "critical_rescuer_enabled": "off"},
            ["spread_cronjob_state is present: remove it", "critical_rescuer_enabled is off: remove it"],
        ),
    ],
)
def test_what_a_playbook_of_the_installation_refuses(rules: str, variables: dict[str, Any], texts: list[str]) -> None:
    found = mistakes(rules, variables)
    assert len(found) == len(texts) and all(one.startswith(text) for one, text in zip(found, texts, strict=True)), found


NOTHING_IS_MISSING: dict[str, Any] = {
    "extended_scheduler_shape": "systemd",
    "__extended_scheduler_checked_sources": {},
    "__extended_scheduler_missing": [],
    "__extended_scheduler_all_errors": [],
    "__extended_scheduler_of_plan": {"missing": []},
    "__extended_scheduler_found": {},
}


@pytest.mark.parametrize(("shape", "of_hosts"), [("second_scheduler", []), ("systemd", ["cp-1 is lost", "no file", "no unit"])])
def test_missing_objects_and_each_difference_of_the_hosts_are_named_once(shape: str, of_hosts: list[str]) -> None:
    found = {"cp-1": {"missing": ["no unit"]}, "cp-2": {"missing": ["no unit"]}, "cp-3": {}}
    given = {"missing": ["no Role"], "all_errors": ["cp-1 is lost"], "of_plan": {"missing": ["no file"]}, "found": found}
    changed = {f"__extended_scheduler_{name}": value for name, value in given.items()}
    assert mistakes("scheduler_verified", NOTHING_IS_MISSING | changed | {"extended_scheduler_shape": shape}) == ["no Role", *of_hosts]


def test_the_sources_of_the_extenders_that_fail_are_named_and_single_nodes_are_a_remark() -> None:
    pod, extender = "extender-1", {"name": "traffic"}
    text = "extender: prometheus: no answer\nextender: prometheus: no fresh value for node-1\nother"
    checks = [{"item": [pod, extender], "rc": 2, "stderr": text}, {"item": [pod, extender], "msg": "forbidden"}, {"skipped": True}]
    given = NOTHING_IS_MISSING | {"__extended_scheduler_checked_sources": {"results": checks}, "extended_scheduler_shape": "kubeadm"}
    assert mistakes("scheduler_verified", given) == ["traffic of Pod extender-1: prometheus: no answer"]
    assert importlib.import_module(f"{RULES}.scheduler_verified").remarks(given) == [
        "traffic of Pod extender-1: prometheus: no fresh value for node-1",
        "The sources of traffic of Pod extender-1 are not checked: forbidden",
    ]
    nothing = NOTHING_IS_MISSING | {"__extended_scheduler_hosts": ["a", "b"]}
    (remark,) = importlib.import_module(f"{RULES}.scheduler_verified").remarks(nothing)
    assert "extenders on a, b are not checked" in remark and mistakes("scheduler_verified", nothing) == []
