# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The targets of a Prometheus, and the folder on its host with them, the scrape configuration, the recording rules and the password."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

from .common.files import Changes, HostFile, read_text
from .common.system import Answer, HostError, Run, run_checked, wait_until

TARGETS, RULES, SCRAPE, PASSWORD, LOADED = "targets.yml", "rules.yml", "scrape.yml", "password", "loaded"
CHECKS = {RULES: "rules", SCRAPE: "config"}
"""The files that Prometheus reads when it is reloaded, and the arguments of promtool for them."""
MARK = "# Written by the role onprem.kube_scheduling.node_exporter. The next run replaces this file.\n"

Target = dict[str, Any]
"""An entry of file_sd."""
HOST = "__meta_inventory_hostname"


def target_of(host: str, variables: Mapping[str, Any], kept: Sequence[Target]) -> Target:
    """Return the target of a host. What is not known of it in this run is as in its entry of ``kept``."""
    earlier: Target = next((one for one in kept if one["labels"].get(HOST) == host), {"targets": [], "labels": {}})
    name = variables["node"] or earlier["labels"].get("node") or host.lower()
    scheme = variables["scheme"] or earlier["labels"].get("__scheme__") or variables["default_scheme"]
    labels = {"instance": name, "node": name, "__scheme__": scheme, "__metrics_path__": variables["path"], HOST: host}
    return {"targets": [variables["address"]] if variables["address"] else earlier["targets"], "labels": labels}


def target_problems(targets: Sequence[Target], reaches_itself: Container[str]) -> list[str]:
    """Return why targets are not one machine each. A target at a loopback address is only good for the hosts of ``reaches_itself``."""
    by_node, by_url, found = defaultdict(list), defaultdict(list), []
    for one in targets:
        host, address = one["labels"][HOST], one["targets"][0]
        by_node[one["labels"]["node"]].append(host)
        by_url[address + one["labels"]["__metrics_path__"]].append(host)
        if re.match(r"127[.]|\[::1\]|localhost:", address) and host not in reaches_itself:
            found.append(
                f"The target of {host} is {address}, which is another machine for Prometheus: set node_exporter_web_listen_address or "
                f"node_exporter_scrape_address of {host} to an address that Prometheus reaches"
            )
    own_name = "set node_exporter_kube_node_name of each host to the name of its Kubernetes node"
    own_url = "so one machine would count as several nodes: set node_exporter_scrape_address of each host to an address of this host only"
    found += [f"{', '.join(hosts)} have the same node name {name}: {own_name}" for name, hosts in by_node.items() if len(hosts) > 1]
    return found + [f"{', '.join(hosts)} have the same target {url}, {own_url}" for url, hosts in by_url.items() if len(hosts) > 1]


def object_problems(targets: Sequence[Target], kind: str) -> list[str]:
    """Return why an object of the Prometheus operator, a scrape_config or a service_monitor, cannot have all targets."""
    found = []
    shared = [sorted({one["labels"][label] for one in targets}) for label in ("__scheme__", "__metrics_path__")]
    if any(len(values) > 1 for values in shared):
        needs = "and node_exporter_prometheus_objects needs one scheme and one path for all hosts"
        found.append(f"The hosts have {', '.join(shared[0] + shared[1])}, {needs}")
    names = [one["targets"][0] for one in targets if not re.match(r"([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+$", one["targets"][0])]
    if names and kind == "service_monitor":
        found.append(f"{', '.join(names)}: a ServiceMonitor needs IP addresses with a port, so correct node_exporter_scrape_address")
    return found


@dataclass
class Prometheus:
    """A Prometheus, as its host has it. ``given`` are the variables of the role.

    Without a ``folder`` there are no files. An empty ``service`` is not reloaded, and without ``promtool`` nothing is checked. An empty
    ``owner`` of the password is not needed.
    """

    given: Mapping[str, Any]
    run: Run
    changes: Changes

    def kept(self) -> Optional[list[Target]]:
        """Return the targets in the present file. None for a file in another form, as another program or an earlier version writes it."""
        text = read_text(self._place(TARGETS)) if self.given["folder"] else ""
        try:
            return json.loads(text.partition("---\n")[2]) if text else []
        except ValueError:
            return None

    def targets(self, warn: Callable[[str], None]) -> tuple[list[Target], list[str]]:
        """Return the targets, and the reasons for which they cannot be used. Files may have targets for some of the hosts."""
        hosts, kept, objects = self.given["hosts"], self.kept(), self.given["objects"]
        found = [target_of(name, variables, kept or []) for name, variables in hosts.items()]
        targets, without = [one for one in found if one["targets"]], [one["labels"][HOST] for one in found if not one["targets"]]
        problems = target_problems(targets, [name for name, variables in hosts.items() if variables["reaches_itself"]])
        unknown = (
            f"The address of node_exporter is not known for {', '.join(without)}, so Prometheus does not scrape it: run the role on these "
            "hosts in the same run, or set node_exporter_scrape_address of each host"
        )
        if objects != "none":
            problems += object_problems(targets, objects) + ([unknown] if without else [])
        elif without and kept is None:
            lost = f"{self._place(TARGETS)} has another form, so the targets of {', '.join(without)} cannot be kept"
            problems.append(f"{lost}: run the playbook once without --limit")
        elif without:
            warn(unknown)
        return targets, problems

    def missing(self, ask: Callable[..., Answer], login: Mapping[str, str]) -> list[str]:
        """Return what is missing in the files, and what Prometheus does not scrape.

        One that was reloaded scrapes each target within one interval.
        """
        given, kept, advice, found = self.given, self.kept() or [], "run the playbook onprem.kube_scheduling.site", []
        if given["folder"]:
            known = [one["labels"].get(HOST) for one in kept]
            found = [f"{name} is not a target of Prometheus on {given['host']}: {advice}" for name in given["hosts"] if name not in known]
            found = found if kept else [f"{given['host']} has no targets of node_exporter for Prometheus: {advice}"]
        if not given["url"]:
            return found
        name, url = f"Prometheus {given['url']}", f"{given['url']}/api/v1/targets?state=active&scrapePool={quote(given['job'])}"

        def look() -> tuple[Optional[list[Target]], Answer]:
            # A redirect would send the password to the other host, too.
            answer = ask(url, follow_redirects="none" if login else "safe", force_basic_auth=bool(login), **login)
            try:
                return json.loads(answer.text)["data"]["activeTargets"], answer
            except (ValueError, KeyError, TypeError):
                return None, answer

        def is_scraped(latest: tuple[Optional[list[Target]], Answer]) -> bool:
            return latest[0] is not None and len(latest[0]) >= len(kept) and all(one["health"] != "unknown" for one in latest[0])

        active, answer = wait_until(look, is_scraped, tries=11, delay_s=3)
        if active is None:
            return [*found, f"{name} does not answer: {answer}"]
        scraped = [one["labels"].get("node") for one in active]
        remedy = f"name the file {self._place(SCRAPE)} in scrape_config_files of its configuration, and reload it"
        for address, node in [(one["targets"][0], one["labels"]["node"]) for one in kept]:
            if node not in scraped:
                found.append(f"{name} does not know the target {address} of the node {node}: {remedy}")
        for one, node in zip(active, scraped):
            if one["health"] != "up":
                reason = one.get("lastError") or "it was not scraped yet"
                found.append(f"{name} cannot scrape {one['scrapeUrl']} of the node {node}: {reason}")
        return found

    def problems(self) -> list[str]:
        """Return each reason why the files cannot be written."""
        elsewhere = (
            "put the hosts of Prometheus into the group prometheus of the inventory, or set node_exporter_prometheus_dir to "
            '"" if no Prometheus is to be configured'
        )
        found, host, folder, owner, promtool = [], *(self.given[name] for name in ("host", "folder", "owner", "promtool"))
        existing = next(place for place in (Path(folder), *Path(folder).parents) if place.exists())
        if not os.access(existing, os.W_OK):
            become = "run the playbook with -b (--become), choose another node_exporter_prometheus_dir"
            found.append(f"{host}: {existing} cannot be written, and {folder} would be in it: {become}, {elsewhere}")
        if owner and self._uid() == -1:
            found.append(f"{host} has no user {owner}: set node_exporter_prometheus_user to the user of Prometheus, {elsewhere}")
        if promtool and not shutil.which(promtool):
            found.append(f"{host} has no command {promtool}: correct node_exporter_prometheus_promtool")
        return found

    def write(self, targets: Sequence[Target], password: str) -> None:
        """Write the files, let promtool check them, and reload Prometheus if it has not loaded them. It reads the targets by itself.

        Raises HostError, after the files are as before, if promtool or the reload refuses them.
        """
        self.changes.make_folder(self.given["folder"])
        if password:
            self.changes.put(HostFile(self._place(PASSWORD), password, mode=0o400, uid=self._uid(), shown=False))
        else:
            self.changes.remove(self._place(PASSWORD))
        files = [HostFile(self._place(TARGETS), f"{MARK}---\n{json.dumps(targets, indent=2)}\n")]
        for name, kind in CHECKS.items():
            check = partial(self._check, name, kind)
            files.append(HostFile(self._place(name), MARK + self.given["texts"][name], check=check))
        before = [replace(file, text=read_text(file.path), check=None) for file in files if Path(file.path).is_file()]
        sums = [f"{Path(file.path).name} {hashlib.sha256(file.text.encode()).hexdigest()}\n" for file in files[1:]]
        record = HostFile(self._place(LOADED), "".join(sums), shown=False)
        try:
            _targets, *written = [self.changes.put(file) for file in files]
            # Files of another program may have been loaded by hand. So new files are loaded, whatever the record says.
            if self.given["service"] and (any(written) or not record.is_there()):
                self._reload()
                self.changes.put(record)
        except (HostError, OSError):
            for file in files:
                Path(file.path).unlink(missing_ok=True)
            for file in before:
                file.write()
            raise

    def remove(self) -> None:
        """Remove the files, and the folder if nothing of others is in it."""
        removed = [self.changes.remove(self._place(name)) for name in (TARGETS, RULES, SCRAPE, PASSWORD)]
        # This record is removed last, so that the next run repeats a reload that has failed.
        if self.given["service"] and (any(removed) or Path(self._place(LOADED)).is_file()):
            self._reload()
        self.changes.remove(self._place(LOADED))
        self.changes.remove_empty(self.given["folder"])

    def _place(self, name: str) -> str:
        return f"{self.given['folder']}/{name}"

    def _uid(self) -> int:
        found = self.run(["id", "-u", self.given["owner"]])[1].strip() if self.given["owner"] else ""
        return int(found) if found else -1

    def _check(self, name: str, kind: str, file: str) -> None:
        """Let promtool check a file that will be the one with this name."""
        promtool = self.given["promtool"]
        if promtool:
            run_checked(self.run, f"{promtool} refuses {self._place(name)}", [promtool, "check", kind, file])

    def _reload(self) -> None:
        words = ["systemctl", "reload-or-restart", self.given["service"]]  # a Prometheus that does not run is started
        self.changes.do(True, run_checked, self.run, f"{words[2]} cannot load the files in {self.given['folder']}", words)
