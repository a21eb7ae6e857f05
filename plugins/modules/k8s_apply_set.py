#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_apply_set
short_description: Apply, check, verify, render or delete the objects of a program
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Applies the objects of one program of this collection together, deletes those that are not wanted any more, and waits until its
    Deployment is available. The roles use it. The term is that of KEP-3659 and of C(kubectl apply --applyset).
  - The members of a set are found by the labels C(app.kubernetes.io/name), C(app.kubernetes.io/part-of) and
    C(app.kubernetes.io/managed-by). Each object but the namespace gets them.
  - An object of others with the name of a wanted one is neither replaced nor deleted, and is named.
  - Can be interrupted at any time. The next run continues.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  check_mode:
    details:
      - The API server tries each object as a dry run. An object in a namespace that does not exist yet is only named.
  diff_mode:
    support: full
    details:
      - Shows each object before and after, without what the API server writes, and without the data of a Secret.
options:
  state:
    description:
      - With V(present) the objects are applied in their order on the server side by the field manager C(kube-scheduling), each Deployment
        is waited for, and members that are not wanted any more are deleted.
      - With V(absent) all members are deleted in the reverse order of their kinds, each after its dependents. The namespace is deleted only
        if this collection made it, and nothing of others is in it.
      - With V(checked) nothing is changed. Fails with a sentence for each missing one of the O(rights), and for each object that the API
        server refuses in a dry run. Objects of a namespace that does not exist are tried in C(kube-system).
      - With V(verified) nothing is changed. Fails with a sentence for each object that is missing, not available, or not as it would be
        applied, and for each pod of a CronJob that does not start.
      - With V(rendered) files are written to O(render_to), and the cluster is not read.
    type: str
    choices: [present, absent, checked, verified, rendered]
    default: present
  name:
    description:
      - The name of the set, such as V(kube-scheduling-rescuer). It is the name of the service account and of its roles. Without it,
        V(checked) only asks for O(rights).
    type: str
  component:
    description: The label C(app.kubernetes.io/component), and the first part of the names of rendered files.
    type: str
  namespace:
    description: The namespace of the objects.
    type: str
  create_namespace:
    description: Make the namespace, and delete it with O(state=absent).
    type: bool
    default: false
  removes_state:
    description:
      - With O(state=absent), also delete the Leases and the ConfigMaps in C(kube-system) that the programs and modules have written, and
        the annotations with the outcomes of restarts.
    type: bool
    default: false
  components:
    description: The components whose objects do not keep the namespace. O(component) is one of them.
    type: list
    elements: str
    default: []
  templates:
    description:
      - The templates of the role whose task this is, in the order in which their objects are applied. V(deployment) is the file
        C(templates/deployment.yml.j2). They can use the variables C(apply_set.name), C(apply_set.namespace), C(apply_set.user),
        C(apply_set.labels) for pods, and C(apply_set.selector) for selectors.
    type: list
    elements: str
  objects:
    description: The wanted objects, as lists by the name of a part. A part has a file of its own with O(state=rendered).
    type: dict
    default: {}
  permissions:
    description:
      - The rights of the program. Each has C(api_group), C(resources), C(verbs), and optionally C(names) and C(namespace). A right with a
        namespace is in a Role there, another one in the ClusterRole. Their objects are applied before the others.
    type: list
    elements: dict
  user:
    description: The user who gets the rights in place of the service account, which is then not made.
    type: str
    default: ""
  kinds:
    description:
      - The kinds that members may have in addition to those of the wanted objects, such as V(apps/v1/Deployment). Members of these kinds
        are deleted, too. A kind that the cluster does not know has none.
    type: list
    elements: str
    default: []
  optional_kinds:
    description: The kinds whose objects are left out if the cluster does not know the kind, and if they are rendered.
    type: list
    elements: str
    default: []
  rights:
    description:
      - The rights of the user for which V(checked) asks the API server. Each has C(group), C(resources), C(verbs), and optionally
        C(namespaces), C(names), and C(asked), which is false if it is not asked.
    type: list
    elements: dict
    default: []
  unneeded_verbs:
    description: Verbs in O(rights) that are not asked. A right that has only such verbs is asked.
    type: list
    elements: str
    default: []
  render_to:
    description: The folder for the files of O(state=rendered). Files of others in it are neither replaced nor removed.
    type: path
  wait_timeout:
    description: The longest time in seconds until a Deployment is available. With 0 it is not waited for.
    type: int
    default: 180
  delete_timeout:
    description: The longest time in seconds until a deleted object is gone.
    type: int
    default: 180
  pending_remedy:
    description: A sentence for the error about pods that find no node.
    type: str
    default: ""
notes:
  - Needs the verbs get, list, create, patch and delete on the kinds of the set. Roles and RoleBindings are listed in all namespaces. A
    Secret is read by its name and not listed, so one that is not wanted any more is not deleted. To
    delete a namespace, it needs the verb list on every kind. A kind that cannot be listed keeps the namespace.
seealso:
  - name: Uninstall
    description: The part of the guide that says when a namespace is deleted.
    link: https://onprem.github.io/kube_scheduling/docs/install.html#uninstall
"""

EXAMPLES = r"""
- name: Apply the objects of the rescuer
  onprem.kube_scheduling.k8s_apply_set:
    name: kube-scheduling-rescuer
    component: rescuer
    namespace: kube-scheduling
    create_namespace: true
    templates: [settings, service, deployment]
    kinds: [networking.k8s.io/v1/NetworkPolicy]

- name: Fail if something is missing
  onprem.kube_scheduling.k8s_apply_set:
    state: verified
    name: kube-scheduling-rescuer
    component: rescuer
    namespace: kube-scheduling
    templates: [settings, service, deployment]
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
  description: The objects that were applied or deleted, or would be.
  returned: with O(name), except for O(state=rendered)
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
    namespace:
      description: Its namespace. It is empty for an object of the whole cluster.
      type: str
    name:
      description: Its name.
      type: str
    change:
      description: V(created), V(changed), V(deleted) or V(unchanged).
      type: str
  sample: [{kind: ConfigMap, namespace: kube-scheduling, name: kube-scheduling-rescuer, change: created}]
remarks:
  description: Sentences for people, such as what check mode would change, and what stays. They are printed.
  returned: with O(name), except for O(state=rendered)
  type: list
  elements: str
  sample: ["Would be deleted: CronJob kube-scheduling/kube-scheduling-rebalancer"]
not_deleted:
  description: The objects of others that have the names of members, and were not deleted.
  returned: with O(name), except for O(state=rendered)
  type: list
  elements: str
  sample: [NetworkPolicy kube-scheduling/kube-scheduling-rebalancer]
outcomes:
  description: The number of objects from which the outcome of a restart was removed, or would be.
  returned: with O(name), except for O(state=rendered)
  type: int
  sample: 0
namespace_stays:
  description: The reason for which the namespace is not deleted. It is empty if there is none.
  returned: with O(name), except for O(state=rendered)
  type: str
  sample: "Namespace kube-scheduling is not deleted, because it has objects of others: Secret/registry"
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.apply_set import ApplySet
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.files import render
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.rights import missing_rights

STATES = ("present", "absent", "checked", "verified", "rendered")


def argument_spec():
    """Return the module's own options."""
    texts = {"type": "list", "elements": "str", "default": []}
    return {
        "state": {"type": "str", "choices": list(STATES), "default": "present"},
        **{name: {"type": "str"} for name in ("name", "component", "namespace")},
        **{name: {"type": "bool", "default": False} for name in ("create_namespace", "removes_state")},
        "components": texts,
        "templates": {"type": "list", "elements": "str"},
        "objects": {"type": "dict", "default": {}},
        "permissions": {"type": "list", "elements": "dict"},
        "user": {"type": "str", "default": ""},
        "kinds": texts,
        "optional_kinds": texts,
        "rights": {"type": "list", "elements": "dict", "default": []},
        "unneeded_verbs": texts,
        "render_to": {"type": "path"},
        "wait_timeout": {"type": "int", "default": 180},
        "delete_timeout": {"type": "int", "default": 180},
        "pending_remedy": {"type": "str", "default": ""},
    }


def execute(module, result):
    """Do what the state says."""
    given, state = dict(module.params), module.params["state"]
    module.params["objects"] = {}  # the result has the options, and the objects may have a Secret
    if state == "rendered":
        result["diff"] = render(given, check_mode=module.check_mode)
        result["changed"] = bool(result["diff"])
        return
    api = connect(module, name="k8s_apply_set", client=ObjectsApi)
    problems = list(missing_rights(api, given["rights"], given["unneeded_verbs"])) if state == "checked" else []
    if given["name"]:
        members = ApplySet(api, given, result, check_mode=module.check_mode)
        getattr(members, state)()
        problems += members.problems
    if problems:
        result.update(failed=True, msg="\n".join(problems))


def main():
    """Run the module."""
    needed = ("name", "component", "namespace")
    conditions = [("state", state, needed) for state in STATES if state != "checked"] + [("state", "rendered", ("render_to",))]
    run_module(argument_spec(), execute, required_if=conditions)


if __name__ == "__main__":
    main()
