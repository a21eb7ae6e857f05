# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: scheduler_files
short_description: Return the files of a scheduler with extenders
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes the configuration of kube-scheduler and the settings of each extender from the variables of the role
    P(onprem.kube_scheduling.extended_scheduler#role), and finds the mistakes in these variables.
options:
  _input:
    description: The variables of the role by their names without C(extended_scheduler_).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the configuration of kube-scheduler
  ansible.builtin.debug:
    msg: "{{ (variables | onprem.kube_scheduling.scheduler_files).scheduler }}"
  vars:
    variables:
      profile_name: network-traffic
      preset: network_traffic
      weights: mild
      http_timeout: 200ms
      node_exporter_port: 9100
"""

RETURN = r"""
_value:
  description: >-
    C(scheduler) is the KubeSchedulerConfiguration. C(extenders) is a list of C(name), C(port), C(status_port), C(settings), and
    C(files), which are the keys of Secrets and ConfigMaps that the settings name as files.
    C(profiles) has the names by which pods choose the scheduler. C(learns) is true if an agent stores what it has learned in the
    cluster, and C(scrapes_nodes) if an extender reads the node_exporters. C(source_hosts) has the hosts in the URLs of sources.
    C(mistakes) is a list of sentences. With a mistake, the files may be empty.
  type: dict
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.configuration import (
    SchedulerVariables,
    extenders_of,
    learns,
    scheduler_configuration,
    scrapes_nodes,
    source_hosts,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.mistakes import mistakes_in, shape_mistakes_in
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.presets import PRESETS

TYPES = {
    **dict.fromkeys(("prometheus_urls", "profiles", "extenders", "learning_agents", "known_plugins"), list),
    **dict.fromkeys(("sources", "agent_args"), dict),
}


def scheduler_files(variables):
    """Return the files of the scheduler and its extenders, and the mistakes in the variables of the role."""
    texts = {name: str(variables.get(name, "")) for name in ("profile_name", "preset", "weights", "http_timeout")}
    given = {name: variables.get(name) or type_() for name, type_ in TYPES.items()}
    port, preset = str(variables.get("node_exporter_port") or 0), PRESETS.get(texts["preset"], ())
    # The argument spec of the role names a wrong type or value.
    if not port.isdigit() or texts["weights"] not in preset or not all(isinstance(given[name], TYPES[name]) for name in TYPES):
        return _answer()
    if not all(isinstance(entry, dict) for name in ("profiles", "extenders") for entry in given[name]):
        return _answer()
    shape = str(variables.get("shape") or "second_scheduler")
    given_variables = SchedulerVariables(**texts, **given, node_exporter_port=int(port), shape=shape)
    mistakes = list(shape_mistakes_in(given_variables))
    if mistakes:
        return _answer(mistakes=mistakes)
    extenders = extenders_of(given_variables)
    return _answer(
        scheduler=scheduler_configuration(given_variables, extenders),
        extenders=[
            {
                "name": extender.name,
                "port": extender.port,
                "status_port": extender.status_port,
                "settings": extender.file(on_host=given_variables.is_on_hosts),
                "files": [{**one._asdict(), "folder": one.folder, "volume": one.volume} for one in extender.mounted_files],
            }
            for extender in extenders
        ],
        profiles=given_variables.profile_names,
        learns=learns(given_variables, extenders),
        source_hosts=source_hosts(extenders),
        scrapes_nodes=scrapes_nodes(extenders),
        mistakes=mistakes_in(given_variables, extenders, str(variables.get("namespaces") or "")),
    )


def _answer(**found):
    lists = {"extenders": [], "profiles": [], "source_hosts": [], "mistakes": []}
    return {"scheduler": {}, "learns": False, "scrapes_nodes": False, **lists, **found}


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"scheduler_files": scheduler_files}
