#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_namespace_objects
short_description: List the objects of every kind in a namespace
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Lists the names and labels of all objects in a namespace, also those of custom resources and of aggregated APIs. The roles delete a
    namespace only if this list has no objects of others.
  - Never changes anything in the cluster. Does not return the content of the objects.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
attributes:
  diff_mode:
    support: N/A
    details:
      - The module never changes anything.
options:
  namespace:
    description:
      - The namespace. It may be missing, and then has no objects.
    type: str
    required: true
  exclude_kinds:
    description:
      - Kinds that are not listed, of any group.
    type: list
    elements: str
    default: []
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
  - msgspec >= 0.19
  - PyYAML >= 6.0
  - urllib3 >= 2.0.2
notes:
  - The Python library kubernetes is imported only for a kubeconfig whose user has an exec plugin or an auth provider.
  - Needs the verb list on every kind. RV(unreadable) has the kinds that cannot be listed, and the aggregated APIs that do not answer.
seealso:
  - module: kubernetes.core.k8s_info
  - name: Uninstall
    description: The part of the guide that says when a namespace is deleted.
    link: https://onprem.github.io/kube_scheduling/docs/install.html#uninstall
"""

EXAMPLES = r"""
- name: Read what is in a namespace
  onprem.kube_scheduling.k8s_namespace_objects:
    namespace: shop
    exclude_kinds: [Event, PodMetrics]
  register: shop
"""

RETURN = r"""
cluster:
  description: The cluster of the connection.
  returned: if the settings of the connection can be read
  type: dict
  contains:
    name:
      description: Its name in the kubeconfig. Without a kubeconfig, the URL of the API server.
      type: str
    context:
      description: The context of the kubeconfig. Without a kubeconfig it is empty.
      type: str
    server:
      description: The URL of the API server, without a login.
      type: str
  sample: {name: berlin, context: admin@berlin, server: "https://10.0.0.10:6443"}
objects:
  description: The objects, sorted by kind and name.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
    name:
      description: Its name.
      type: str
    labels:
      description: Its labels. They are empty if the object cannot be decoded.
      type: dict
  sample: [{kind: ConfigMap, name: kube-root-ca.crt, labels: {}}, {kind: Service, name: web, labels: {app: web}}]
unreadable:
  description: What could not be read.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind, or the version of a group whose kinds are not known.
      type: str
    reason:
      description: The code. It is always V(unreadable).
      type: str
    message:
      description: The error, for people.
      type: str
  sample:
    - kind: metrics.k8s.io/v1beta1
      reason: unreadable
      message: "cannot get the path /apis/metrics.k8s.io/v1beta1: ..."
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, fail, make_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.discovery import read_namespace_objects
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError

RETRY_FOR_S = 10.0
"""Seconds. An aggregated API without a server does not answer later either."""
ANSWER_TIMEOUT_S = 30.0


def argument_spec():
    """Return the module's own options."""
    return {
        "namespace": {"type": "str", "required": True},
        "exclude_kinds": {"type": "list", "elements": "str", "default": []},
    }


def main():
    """Run the module: list the objects of every kind."""
    module = make_module(argument_spec())
    try:
        api = connect(module, name="k8s_namespace_objects").with_timeouts(retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S)
        found = read_namespace_objects(api, module.params["namespace"], exclude_kinds=module.params["exclude_kinds"])
    except KubeError as error:
        fail(module, error)
    module.exit_json(
        changed=False,
        objects=[item._asdict() for item in found.objects],
        unreadable=[{"kind": item.kind, "reason": "unreadable", "message": item.message} for item in found.unreadable],
    )


if __name__ == "__main__":
    main()
