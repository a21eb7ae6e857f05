# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The role node_exporter for Prometheus: files that a real Prometheus uses and the extender maps, and objects for the operator."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from lab import binaries, ports
from lab.cluster import Cluster
from lab.exporter_process import Exporters, exporters
from lab.layout import REPOSITORY
from lab.prometheus_server import PrometheusServer, prometheus_server
from tests.integration.extender.conftest import extender_kubeconfig
from tests.integration.extender.extender_process import FOREIGN, PACKAGE
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.playbooks.site_runs import LOCAL
from tests.integration.roles.host_cases import CasesRun, play_role
from tests.integration.roles.role_play import RolePlay, RoleRun, ansible_playbook
from tests.integration.workloads import wait_until

__all__ = ["extender_kubeconfig"]

pytestmark = pytest.mark.timeout(1800)

SPEED = 1.25e9
JOB = "node_exporter"
HASH_OF_TEST = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
"""The hash of the password `test` in the documentation of Prometheus."""
COLLECTORS = ("netdev", "netclass", "cpu", "meminfo", "uname")


@dataclass
class PrometheusSide:
    """The entry point `prometheus` for the nodes of an inventory. Variables of nodes are in ``nodes``."""

    folder: Path
    nodes: dict[str, dict[str, Any]]
    variables: dict[str, Any]
    tasks_from: str = "prometheus"

    def run(self, *arguments: str, results: dict[str, dict[str, Any]] | None = None, **variables: Any) -> RoleRun:
        """Run it after a play in which the role leaves its results on these hosts."""
        results = results or {}
        left = {
            "hosts": ",".join(results),
            "gather_facts": False,
            "tasks": [{"ansible.builtin.set_fact": {"node_exporter_result": "{{ left }}"}}],
        }
        role = {"name": "onprem.kube_scheduling.node_exporter", "tasks_from": self.tasks_from}
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": role}],
        }
        nodes = {name: self.nodes[name] | ({"left": results[name]} if name in results else {}) for name in self.nodes}
        inventory = {
            "all": {
                "hosts": {"localhost": {}},
                "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
                "children": {"kube_node": {"hosts": nodes}, "kube_control_plane": {"hosts": {}}},
            }
        }
        (self.folder / "inventory.json").write_text(json.dumps(inventory))
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([left, play] if results else [play]))
        given = json.dumps(self.variables | variables)
        return ansible_playbook(playbook, "-i", str(self.folder / "inventory.json"), *arguments, "-e", given, folder=self.folder)

    @property
    def targets(self) -> dict[str, Any]:
        """The targets that the role has written, by the name of the node."""
        written = yaml.safe_load((self.output / "targets.yml").read_text())
        return {one["labels"]["node"]: one for one in written}

    @property
    def output(self) -> Path:
        return Path(self.variables["node_exporter_prometheus_dir"])


def prometheus_side(folder: Path, nodes: dict[str, dict[str, Any]]) -> PrometheusSide:
    variables = {
        "node_exporter_prometheus_dir": str(folder / "prometheus"),
        "node_exporter_prometheus_user": "",
        "node_exporter_prometheus_promtool": str(binaries.promtool()),
        "node_exporter_prometheus_interval": "1s",
    }
    return PrometheusSide(folder, nodes, variables)


# Without a cluster


@pytest.fixture
def side(tmp_path: Path) -> PrometheusSide:
    nodes: dict[str, dict[str, Any]] = {
        "node-1": {"node_exporter_basic_auth_users": {"prom": "s3cret words"}},
        "node-2": {"kube_override_hostname": "two.example.org"},
        "node-3": {"node_exporter_scrape_address": "node-3.example.org:9443", "node_exporter_tls_server_config": {"cert_file": "/x"}},
    }
    return prometheus_side(tmp_path, nodes)


RESULTS = {
    "node-1": {"addresses": ["10.0.0.1:9100", "10.1.0.1:9100"], "scheme": "https", "auth": True},
    "node-2": {"addresses": ["[fd00::2]:9100"], "scheme": "http", "auth": False},
}


def test_files_are_planned_written_repeated_kept_and_removed(side: PrometheusSide) -> None:
    planned = side.run("--check", "--diff", results=RESULTS)
    assert planned.code == 0 and planned.changed and not side.output.exists(), planned.output
    first = side.run(results=RESULTS)
    assert first.code == 0, first.output
    assert {node: (one["targets"], one["labels"]["instance"], one["labels"]["__scheme__"]) for node, one in side.targets.items()} == {
        "node-1": (["10.0.0.1:9100"], "node-1", "https"),
        "two.example.org": (["[fd00::2]:9100"], "two.example.org", "http"),
        "node-3": (["node-3.example.org:9443"], "node-3", "https"),
    }
    password = side.output / "password"
    assert password.read_text() == "s3cret words" and stat.S_IMODE(password.stat().st_mode) == 0o400
    assert "s3cret" not in planned.output + first.output
    again = side.run("--diff", results=RESULTS)
    assert again.code == 0 and again.changed == 0, again.output

    # A run for some hosts keeps the targets of the others, and a host that is gone from the inventory loses its target.
    before = side.targets
    del side.nodes["node-3"]
    part = side.run(results={"node-2": RESULTS["node-2"] | {"addresses": ["10.0.0.2:9100"]}})
    assert part.code == 0 and set(side.targets) == {"node-1", "two.example.org"}, part.output
    assert side.targets["node-1"] == before["node-1"] and side.targets["two.example.org"]["targets"] == ["10.0.0.2:9100"]

    (side.output / "of-others").touch()
    gone = side.run(node_exporter_state="absent")
    assert gone.code == 0 and [file.name for file in side.output.iterdir()] == ["of-others"], gone.output
    (side.output / "of-others").unlink()
    assert side.run(node_exporter_state="absent").code == 0 and not side.output.exists()
    repeated = side.run(node_exporter_state="absent")
    assert repeated.code == 0 and repeated.changed == 0, repeated.output


def test_a_host_without_an_address_is_named_and_no_part_is_written_that_promtool_refuses(side: PrometheusSide) -> None:
    without = side.run()
    assert without.code == 0 and "node_exporter is not known for node-1, node-2" in without.in_one_line, without.output
    assert set(side.targets) == {"node-3"}
    before = (side.output / "scrape.yml").read_text()
    refused = side.run(node_exporter_prometheus_interval="soon")
    assert refused.code == 2 and "not a valid duration string" in refused.output, refused.output
    refused = side.run(node_exporter_prometheus_tls_config={"cert_file": "/nowhere/tls.crt", "key_file": "/nowhere/tls.key"})
    assert refused.code == 2 and "/nowhere/tls.crt" in refused.output, refused.output
    assert (side.output / "scrape.yml").read_text() == before


@pytest.mark.full
def test_prometheus_is_reloaded_once_for_changed_files_also_after_an_interruption(
    side: PrometheusSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later task fails, or the reload itself: then the next run finds the files unchanged."""
    reloads = side.folder / "reloads"
    programs = side.folder / "programs"
    programs.mkdir()
    systemctl = programs / "systemctl"
    busy = side.folder / "busy"
    systemctl.write_text(
        f"""#!/bin/sh
case "$1" in
reload-or-restart) test ! -e {busy} && echo "$2" >> {reloads}
esac
"""
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    side.variables["node_exporter_prometheus_service"] = "prometheus"
    no_cluster = {
        "node_exporter_prometheus_objects": "scrape_config",
        "node_exporter_prometheus_secret": "node-exporter",
        "node_exporter_prometheus_kubeconfig": str(side.folder / "no-kubeconfig"),
    }

    def reloaded() -> list[str]:
        found = reloads.read_text().split() if reloads.exists() else []
        reloads.unlink(missing_ok=True)
        return found

    results = RESULTS | {"node-3": {"addresses": ["10.0.0.3:9100"], "auth": False}}
    results = {name: result | {"scheme": "https"} for name, result in results.items()}  # an object has one scheme
    assert side.run("--check", results=results).code == 0 and not reloaded()
    failed = side.run(results=results, **no_cluster)
    assert failed.code == 2 and "no-kubeconfig" in failed.output and (side.output / "scrape.yml").exists(), failed.output
    assert reloaded() == ["prometheus"]
    assert side.run(results=results).changed == 0 and not reloaded()

    # promtool refuses one file. Then none is written.
    (side.output / "rules.yml").unlink()
    assert side.run("--check", "--diff", results=results).changed and not reloaded()
    refused = side.run(results=results, node_exporter_prometheus_interval="soon")
    assert refused.code == 2 and "not a valid duration string" in refused.output, refused.output
    assert not (side.output / "rules.yml").exists() and not reloaded()
    assert side.run(results=results).code == 0 and reloaded() == ["prometheus"]
    assert side.run(results=results).changed == 0 and not reloaded()

    # A configuration that a user has loaded by hand
    (side.output / "scrape.yml").write_text("scrape_configs: []\n")
    assert side.run(results=results).code == 0 and reloaded() == ["prometheus"]

    # Prometheus refuses the files, and gets the earlier ones back.
    busy.touch()
    failed = side.run(results=results, node_exporter_prometheus_interval="2s")
    assert failed.code == 2 and "prometheus cannot load the files in" in failed.output and not reloaded(), failed.output
    assert "1s" in (side.output / "scrape.yml").read_text()
    busy.unlink()
    repaired = side.run(results=results, node_exporter_prometheus_interval="2s")
    assert repaired.code == 0 and reloaded() == ["prometheus"], repaired.output
    assert side.run(results=results, node_exporter_prometheus_interval="2s").changed == 0 and not reloaded()

    # A run that is interrupted before the reload
    (side.output / "loaded").write_text("")
    assert side.run(results=results, node_exporter_prometheus_interval="2s").code == 0 and reloaded() == ["prometheus"]
    busy.touch()
    failed = side.run(node_exporter_state="absent")
    assert failed.code == 2 and not (side.output / "scrape.yml").exists() and not reloaded(), failed.output
    busy.unlink()

    failed = side.run(node_exporter_state="absent", **no_cluster)
    assert failed.code == 2 and "no-kubeconfig" in failed.output and not side.output.exists(), failed.output
    assert reloaded() == ["prometheus"]
    assert side.run(node_exporter_state="absent").changed == 0 and not reloaded()


OTHER = {"scheme": "http", "auth": False}
CHECKED: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Any]]] = {
    "wrong": (
        {},
        {
            "targets": "nobody",
            "username": "else",
            "objects": "scrape_config",
        },
    ),
    "hashed": ({"a": {"node_exporter_basic_auth_users": {"prom": HASH_OF_TEST}}}, {}),
    "twice": (
        {
            "a": {"node_exporter_result": RESULTS["node-1"]},
            "b": {"node_exporter_result": RESULTS["node-2"], "kube_override_hostname": "twice-a"},
        },
        {},
    ),
    "machines": (
        {
            "a": {"ansible_connection": "ssh", "node_exporter_result": OTHER | {"addresses": ["127.0.0.1:9100"]}},
            "b": {"ansible_connection": "ssh", "node_exporter_result": OTHER | {"addresses": ["10.0.0.9:9100"]}},
            "c": {"ansible_connection": "ssh", "node_exporter_scrape_address": "10.0.0.9:9100"},
            "d": {
                "ansible_connection": "ssh",
                "node_exporter_scrape_address": "10.0.0.9:9100",
                "node_exporter_web_telemetry_path": "/four",
            },
            "e": {"node_exporter_result": OTHER | {"addresses": ["[::1]:9100"]}},
        },
        {},
    ),
    "none": ({}, {"dir": "", "targets": "nobody", "username": "else"}),
}
"""The variables of nodes, whose names begin with that of the host, and those of the host without their prefix."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> CasesRun:
    """A run for these hosts of Prometheus. Nothing is written."""
    folder = tmp_path_factory.mktemp("checked")
    cases = {}
    groups = {}
    for host, (nodes, given) in CHECKED.items():
        groups[f"nodes_{host}"] = {"hosts": {f"{host}-{node}": variables for node, variables in nodes.items()}}
        own = {f"node_exporter_prometheus_{name}": value for name, value in {"targets": f"nodes_{host}", **given}.items()}
        cases[host] = prometheus_side(folder / host, {}).variables | own
    cases["wrong"]["node_exporter_basic_auth_users"] = {"prom": HASH_OF_TEST}
    (folder / "nodes.json").write_text(json.dumps({"all": {"vars": LOCAL, "children": groups}}))
    role = RolePlay("node_exporter", folder, tasks_from="prometheus")
    run = play_role(role, cases, "-i", str(folder / "nodes.json"))
    assert not any((folder / host).exists() for host in CHECKED), run.output
    return run


def test_all_mistakes_are_named(checked: CasesRun) -> None:
    for text in (
        "node_exporter_prometheus_targets is nobody, and no host matches it",
        "node_exporter_prometheus_username is else, and node_exporter_basic_auth_users has no such user",
        "node_exporter_prometheus_secret is empty, ",
    ):
        assert text in checked.failure("wrong"), checked.output
    hashed = checked.failure("hashed")
    assert "node_exporter_prometheus_password is empty" in hashed and "the password of prom " in hashed, checked.output
    assert "twice-a, twice-b have the same node name twice-a: set" in checked.failure("twice"), checked.output


def test_one_machine_is_not_a_target_of_several_nodes(checked: CasesRun) -> None:
    wrong = checked.failure("machines")
    assert "The target of machines-a is 127.0.0.1:9100, which is another machine" in wrong
    same = "machines-b, machines-c have the same target 10.0.0.9:9100/metrics, so one machine would count as several nodes: set"
    assert same in wrong and "The target of machines-e" not in wrong and "machines-d" not in wrong.partition("have the same")[2], wrong


def test_without_a_folder_and_objects_no_prometheus_is_configured(checked: CasesRun) -> None:
    assert checked.failure("none") == "" and checked.changed_on("none") == 0, checked.output
    assert "No Prometheus is configured, because" in checked.in_one_line, checked.output


@pytest.mark.full
def test_objects_for_the_operator_have_the_same_labels_and_no_password(side: PrometheusSide) -> None:
    side.nodes["node-3"] |= {"node_exporter_scrape_address": "10.0.0.3:9443"}
    https = {name: result | {"scheme": "https"} for name, result in RESULTS.items()}
    given = {
        "node_exporter_prometheus_dir": "",
        "node_exporter_prometheus_render_to": str(side.folder / "objects"),
        "node_exporter_prometheus_secret": "node-exporter",
        "node_exporter_prometheus_tls_config": {"ca_file": "/etc/ca.crt", "server_name": "node"},
        "node_exporter_prometheus_labels": {"release": "stack"},
    }
    made = side.run(results=https, node_exporter_prometheus_objects="scrape_config", **given)
    assert made.code == 0, made.output
    objects = rendered(side.folder / "objects")
    assert set(objects) == {"PrometheusRule", "ScrapeConfig"}
    spec = objects["ScrapeConfig"]["spec"]
    assert (spec["scheme"], spec["metricsPath"], spec["scrapeInterval"]) == ("HTTPS", "/metrics", "1s")
    assert {one["targets"][0]: one["labels"] for one in spec["staticConfigs"]} == {
        "10.0.0.1:9100": {"job": JOB, "instance": "node-1", "node": "node-1"},
        "[fd00::2]:9100": {"job": JOB, "instance": "two.example.org", "node": "two.example.org"},
        "10.0.0.3:9443": {"job": JOB, "instance": "node-3", "node": "node-3"},
    }
    login = {
        "basicAuth": {"username": {"name": "node-exporter", "key": "username"}, "password": {"name": "node-exporter", "key": "password"}},
        "tlsConfig": {"ca": {"secret": {"name": "node-exporter", "key": "ca.crt"}}, "serverName": "node", "insecureSkipVerify": False},
    }
    assert {key: spec[key] for key in login} == login
    groups = yaml.safe_load((COLLECTIONS / PACKAGE.rpartition(".")[0].replace(".", "/") / "extender" / "prometheus_rules.yml").read_text())[
        "groups"
    ]
    assert objects["PrometheusRule"]["spec"]["groups"] == groups
    assert all(one["metadata"]["labels"]["release"] == "stack" for one in objects.values())

    # The other object replaces it.
    made = side.run(results=https, node_exporter_prometheus_objects="service_monitor", **given)
    assert made.code == 0, made.output
    objects = rendered(side.folder / "objects")
    assert set(objects) == {"PrometheusRule", "Service", "Endpoints", "ServiceMonitor"}
    addresses = [
        (one["ip"], one["nodeName"], subset["ports"][0]["port"])
        for subset in objects["Endpoints"]["subsets"]
        for one in subset["addresses"]
    ]
    assert addresses == [("10.0.0.1", "node-1", 9100), ("fd00::2", "two.example.org", 9100), ("10.0.0.3", "node-3", 9443)]
    (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert {key: endpoint[key] for key in login} == login and endpoint["scheme"] == "https"
    # Each role of the service discovery has a label of its own for the node.
    both = ["__meta_kubernetes_endpoint_node_name", "__meta_kubernetes_endpointslice_endpoint_node_name"]
    assert [one for one in endpoint["relabelings"] if "sourceLabels" in one] == [
        {"sourceLabels": both, "separator": "", "targetLabel": label} for label in ("instance", "node")
    ]
    assert objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= objects["Service"]["metadata"]["labels"].items()
    assert "s3cret" not in "".join(file.read_text() for file in (side.folder / "objects").iterdir())

    mixed = side.run(results=RESULTS, node_exporter_prometheus_objects="service_monitor", **given)
    assert mixed.code == 2 and "The hosts have http, https, /metrics" in mixed.in_one_line, mixed.output
    missing = side.run(node_exporter_prometheus_objects="scrape_config", **given)
    assert missing.code == 2 and "node_exporter is not known for node-1, node-2" in missing.in_one_line, missing.output


def rendered(folder: Path) -> dict[str, Any]:
    """The rendered objects by kind."""
    documents = [yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml") if file.name != "kustomization.yaml"]
    objects = [one for document in documents for one in document.get("items", [document])]
    return {one["kind"]: one for one in objects}


# With a Prometheus, and the extender


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Exporters]:
    with exporters(tmp_path / "exporters.log") as found:
        yield found


@contextlib.contextmanager
def real_exporter(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run a real node_exporter with TLS and basic authentication. Yields its address, and the file of its certificate authority."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    issued.private_key_pem.write_to_path(str(folder / "tls.key"))
    web = {"tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"}, "basic_auth_users": {"prom": HASH_OF_TEST}}
    (folder / "web.yml").write_text(yaml.safe_dump(web))
    (port,) = ports.reserve(folder, 1)
    flags = [f"--web.listen-address=127.0.0.1:{port}", f"--web.config.file={folder / 'web.yml'}", "--collector.disable-defaults"]
    flags += [f"--collector.{name}" for name in COLLECTORS]
    with (folder / "node_exporter.log").open("wb") as log:
        process = subprocess.Popen([str(binaries.node_exporter()), *flags], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"127.0.0.1:{port}", folder / "ca.crt"
    finally:
        process.kill()
        process.wait()


def check_sources(file: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    command = [sys.executable, "-m", PACKAGE, "--config", str(file), "--check-sources"]
    return subprocess.run(command, env={**clean, "PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=False, timeout=60)


def up(prometheus: PrometheusServer) -> dict[str, str]:
    return {one["metric"]["node"]: one["value"][1] for one in prometheus.query(f'up{{job="{JOB}"}}')}


def test_the_extender_maps_each_node_of_a_prometheus_with_these_files(
    lab_cluster: Cluster, extender_kubeconfig: Path, running: Exporters, tmp_path: Path
) -> None:
    names = sorted(node["metadata"]["name"] for node in lab_cluster.get("/api/v1/nodes")["items"])
    real, *simulated = names
    nodes: dict[str, dict[str, Any]] = {}
    for name in simulated:
        running.set_traffic(name, speed=SPEED)
        path = f"/nodes/{name}/metrics"
        nodes[name] = {"node_exporter_scrape_address": running.url.removeprefix("http://"), "node_exporter_web_telemetry_path": path}
    (tmp_path / "data").mkdir()
    with real_exporter(tmp_path) as (address, ca_file):
        nodes[real] = {"node_exporter_basic_auth_users": {"prom": HASH_OF_TEST}}
        side = prometheus_side(tmp_path, nodes)
        side.variables |= {"node_exporter_prometheus_password": "test", "node_exporter_prometheus_tls_config": {"ca_file": str(ca_file)}}
        written = side.run(results={real: {"addresses": [address], "scheme": "https", "auth": True}})
        assert written.code == 0, written.output
        rules = [side.output / "rules.yml"]
        with prometheus_server(
            lab_cluster, tmp_path / "data", [], rule_files=rules, scrape_config_files=[side.output / "scrape.yml"]
        ) as prometheus:
            wait_until(
                lambda: up(prometheus) == dict.fromkeys(names, "1"), timeout_s=30, what=f"the scrape of all nodes, not {up(prometheus)}"
            )
            side.variables["node_exporter_prometheus_url"] = prometheus.url
            verified = PrometheusSide(side.folder, side.nodes, side.variables, "prometheus_verify").run()
            assert verified.code == 0, verified.output
            source = {"urls": [prometheus.url], "selector": f'job="{JOB}"'}
            agent = {"name": "network_traffic", "args": {"window": "4s", "max_age_s": 6, "device": "eth.*|en.*"}}
            file = tmp_path / "extender.yaml"
            settings = {
                "sources": {"prometheus": source, "kubernetes": {"kubeconfig": str(extender_kubeconfig)}},
                "profiles": {"network-traffic": {"agents": [agent]}},
            }
            file.write_text(yaml.safe_dump(settings))
            wait_until(lambda: check_sources(file).returncode == 0, timeout_s=30, what="fresh values of all nodes")
            found = check_sources(file)
            assert "belong to no node" not in found.stdout
            # A virtual device has no speed, and the report names its node.
            assert {line.split(":")[0].strip() for line in found.stdout.splitlines() if "(assumed: " in line} <= {real}, found.stdout

            # A node without node_exporter is named by both.
            running.remove(simulated[0])
            wait_until(lambda: up(prometheus)[simulated[0]] == "0", timeout_s=30, what="the failed scrape")
            named = PrometheusSide(side.folder, side.nodes, side.variables, "prometheus_verify").run()
            assert named.code == 2 and f"of the node {simulated[0]}: server returned HTTP status 404" in named.in_one_line, named.output
            wait_until(lambda: check_sources(file).returncode == 2, timeout_s=30, what="the end of the values")
            assert f"no fresh value for {simulated[0]}" in check_sources(file).stderr


@pytest.mark.usefixtures("as_root")
def test_a_node_exporter_of_another_tool_is_accepted_and_another_program_is_not(running: Exporters, tmp_path: Path) -> None:
    present = RolePlay("node_exporter", tmp_path, {"node_exporter_method": "present"})
    show = {"ansible.builtin.debug": {"msg": "{{ node_exporter_result | to_json }}"}}
    with real_exporter(tmp_path) as (address, _):
        accepted = present.run(
            then=[show],
            node_exporter_web_listen_address=address,
            node_exporter_tls_server_config={"cert_file": str(tmp_path / "tls.crt"), "key_file": str(tmp_path / "tls.key")},
            node_exporter_basic_auth_users={"prom": "test"},
        )
    assert accepted.code == 0 and accepted.changed == 0, accepted.output
    (text,) = re.findall(r'"msg": "(\{.*method.*\})"', accepted.output)
    result = json.loads(text.replace('\\"', '"'))
    expected = {"method": "present", "version": binaries.NODE_EXPORTER_VERSION, "addresses": [address], "scheme": "https", "auth": True}
    assert result == expected | {"unit": result["unit"]}
    running.set_traffic("other", speed=SPEED)
    other = {
        "node_exporter_web_listen_address": running.url.removeprefix("http://"),
        "node_exporter_web_telemetry_path": "/nodes/other/metrics",
    }
    refused = present.run(**other)
    assert refused.code == 2 and "it is no node_exporter: " in refused.in_one_line, refused.output


def custom_resource(kind: str, version: str) -> dict[str, Any]:
    """A kind of the Prometheus operator, whose fields the API server does not check."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower()}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [served]},
    }


OPERATOR = [custom_resource("PrometheusRule", "v1"), custom_resource("ScrapeConfig", "v1alpha1"), custom_resource("ServiceMonitor", "v1")]
KINDS = "prometheusrules,scrapeconfigs,servicemonitors,services,endpoints"


@pytest.fixture
def monitoring(lab_cluster: Cluster) -> Iterator[str]:
    """The namespace of a Prometheus operator."""
    lab_cluster.kubectl("create", "namespace", "monitoring")
    yield "monitoring"
    lab_cluster.kubectl("delete", "namespace", "monitoring")
    lab_cluster.kubectl("delete", "customresourcedefinition", "--ignore-not-found", *(one["metadata"]["name"] for one in OPERATOR))


@pytest.mark.full
def test_objects_are_applied_replaced_and_deleted(lab_cluster: Cluster, monitoring: str, side: PrometheusSide) -> None:
    side.nodes["node-3"] |= {"node_exporter_scrape_address": "10.0.0.3:9443"}
    https = {name: result | {"scheme": "https"} for name, result in RESULTS.items()}
    side.variables |= {
        "node_exporter_prometheus_dir": "",
        "node_exporter_prometheus_secret": "node-exporter",
        "node_exporter_prometheus_kubeconfig": str(lab_cluster.kubeconfig),
    }

    def objects() -> set[str]:
        listed = lab_cluster.kubectl("get", KINDS, "--namespace", monitoring, "--output", "jsonpath={range .items[*]}{.kind} {end}")
        return set(listed.split())

    unknown = side.run(results=https, node_exporter_prometheus_objects="scrape_config")
    assert unknown.code == 2 and "the cluster does not know the kind monitoring.coreos.com/v1/PrometheusRule" in unknown.in_one_line
    for definition in OPERATOR:
        lab_cluster.apply(definition)
        lab_cluster.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{definition['metadata']['name']}")
    first = side.run(results=https, node_exporter_prometheus_objects="scrape_config")
    assert first.code == 0 and objects() == {"PrometheusRule", "ScrapeConfig"}, first.output
    again = side.run("--diff", results=https, node_exporter_prometheus_objects="scrape_config")
    assert again.code == 0 and again.changed == 0, again.output
    other = side.run(results=https, node_exporter_prometheus_objects="service_monitor")
    assert other.code == 0 and objects() == {"PrometheusRule", "ServiceMonitor", "Service", "Endpoints"}, other.output
    gone = side.run(node_exporter_prometheus_objects="service_monitor", node_exporter_state="absent")
    assert gone.code == 0 and objects() == set(), gone.output


def test_the_playbooks_name_hosts_without_node_exporter_and_a_prometheus_without_targets(lab_cluster: Cluster, tmp_path: Path) -> None:
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "node_exporter_method": "present"}
    nodes = {
        "node-1": host | {"node_exporter_web_listen_address": "127.0.0.1:1"},
        "node-2": {"ansible_host": "127.0.0.1", "ansible_port": 1},
    }
    (tmp_path / "inventory.json").write_text(json.dumps({"kube_node": {"hosts": nodes}, "kube_control_plane": {"hosts": {}}}))
    given = {
        "service_image_delivery": "preloaded",
        "service_image_reference": "registry.example.org/services:1",
        "site_kubeconfig": str(lab_cluster.kubeconfig),
        "site_spread_cronjob": False,
        "site_critical_rescuer": False,
        "site_node_exporter": True,
        "node_exporter_prometheus_dir": str(tmp_path / "nowhere"),
        "node_exporter_prometheus_user": "nobody-of-this-name",
        "node_exporter_prometheus_username": "prom",
        "node_exporter_prometheus_password": "test",
    }
    arguments = ("-i", str(tmp_path / "inventory.json"), "-e", json.dumps(given))
    verified = ansible_playbook(REPOSITORY / "playbooks" / "verify.yml", *arguments, folder=tmp_path)
    assert verified.code == 2
    for text in (
        "node-1: http://127.0.0.1:1/metrics does not answer with metrics",
        "node-2 has failed or ",
        "so it was not verified",
        "localhost has no targets of node_exporter",
    ):
        assert text in verified.in_one_line, verified.output

    # The checks before the installation are in one list.
    del nodes["node-2"]
    nodes["node-1"]["node_exporter_method"] = "archive"
    (tmp_path / "inventory.json").write_text(json.dumps({"kube_node": {"hosts": nodes}, "kube_control_plane": {"hosts": {}}}))
    failed = ansible_playbook(REPOSITORY / "playbooks" / "site.yml", *arguments, "--tags", "node_exporter", folder=tmp_path)
    text = failed.in_one_line.partition("Nothing was changed. Failed checks:")[2]
    assert failed.code == 2 and "node_exporter_version is empty: it must be the version of the archive" in text, failed.output
    assert "localhost has no user nobody-of-this-name: set node_exporter_prometheus_user" in text, failed.output
    assert not (tmp_path / "nowhere").exists()
