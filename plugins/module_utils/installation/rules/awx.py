# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the playbook awx. A value of a host or a group is not shown, because it may be a password."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping

FIELDS = ["days", "time_zone", "times"]


def mistakes(variables: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each mistake, without the value of a host, which may be a password."""
    kind = variables["awx_setup_credential"]
    if kind == "kubeconfig" and not variables["awx_setup_kubeconfig_path"]:
        yield "awx_setup_kubeconfig_path is not set: name the kubeconfig"
    if kind == "bearer_token" and not (variables["awx_setup_api_host"] and variables["awx_setup_api_token"]):
        yield "awx_setup_api_host and awx_setup_api_token are not both set: a bearer token needs both"
    yield from _host_mistakes("awx_setup_clusters", "", variables["awx_setup_clusters"] or {})
    for group, hosts in (variables["awx_setup_nodes"] or {}).items():
        if isinstance(hosts, (Mapping, type(None))):
            yield from _host_mistakes("awx_setup_nodes", f" in {group}", hosts or {})
        else:
            yield (
                f"awx_setup_nodes: the value of {group} is no mapping of hosts: write {json.dumps(group)}: {{HOST: {{KEY: VALUE}}}}, or"
                " {HOST: {}} for a host without variables"
            )
    presets, preset = variables["awx_setup_schedule_presets"] or {}, variables["awx_setup_schedule_preset"] or "always"
    yield from _preset_mistakes(presets)
    known = {**(variables["__awx_own_presets"] or {}), **presets}
    if preset not in known:
        yield f"awx_setup_schedule_preset is {preset}: it must be one of {', '.join(map(str, known))}, or of awx_setup_schedule_presets"
    elif variables["awx_setup_schedule_windows"] and preset != "always":
        yield "awx_setup_schedule_preset and awx_setup_schedule_windows are both set: leave one of them out"


def _host_mistakes(name: str, place: str, hosts: Mapping[t.Any, t.Any]) -> Iterator[str]:
    for host, variables in hosts.items():
        if not isinstance(variables, (Mapping, type(None))):
            shown = json.dumps(host)
            yield (
                f"{name}: the value of {host}{place} is no mapping of variables: write {shown}: {{KEY: VALUE}}, or {shown}: {{}} for a host"
                " without variables"
            )


def _preset_mistakes(presets: Mapping[t.Any, t.Any]) -> Iterator[str]:
    for name, given in presets.items():
        is_preset = given == {} or (isinstance(given, Mapping) and sorted(map(str, given)) == FIELDS)
        if not isinstance(name, str):
            yield f"awx_setup_schedule_presets has the name {name}, which is no text: write it in quotes"
        elif not is_preset or not all(isinstance(value, str) and value.strip() for value in given.values()):
            yield (
                f"awx_setup_schedule_presets has {name} with other values than days, times and time_zone, or with an empty one: write"
                f' {json.dumps(name)}: {{days: Mon-Fri, times: "22:00-05:00", time_zone: Europe/Berlin}}, or {json.dumps(name)}: {{}} for'
                " all the time"
            )
