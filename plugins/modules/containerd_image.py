#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_image
short_description: Import the image of the services into the containerd of a node
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - The role P(onprem.kube_scheduling.service_image#role) calls it. Its variables are the defaults of O(ctr), O(socket), O(folder) and
    O(architecture), and the host is that of O(node).
extends_documentation_fragment:
  - onprem.kube_scheduling.attributes
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the node.
    support: full
  action_group:
    description: The module does not connect to a cluster.
    support: none
    membership: []
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(checked), fail if the node cannot use the archive. With V(verified), fail if the image is missing or not pinned.
      - With V(present), check the node, import O(archive), pin the image, and remove older images that no container uses.
      - With V(absent), remove all images of the role but O(image).
    type: str
    choices: [checked, present, verified, absent]
    required: true
  image:
    description: The reference of the image. With O(state=verified) it is that of the variables of the role.
    type: str
    default: ""
  archive:
    description: The archive on the controller. A node that has the image gets no copy of it.
    type: path
  node:
    description: The name of the node in messages.
    type: str
  ctr:
    description: The command of the client of containerd.
    type: list
    elements: str
  socket:
    description: The socket of containerd.
    type: path
  folder:
    description: The folder of the node for the copy of the archive. Copies that interrupted runs have left are removed.
    type: path
  architecture:
    description: The architecture that the variables of the node say.
    type: str
    default: ""
  built_for:
    description: The architecture of the archive.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Import the image
  onprem.kube_scheduling.containerd_image:
    state: present
    image: kube-scheduling.onprem/services:1.0.0-0a1b2c3d4e5f@sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
    archive: ~/.cache/onprem-kube-scheduling/images/kube-scheduling-services-1.0.0-0a1b2c3d4e5f-amd64.oci.tar
    built_for: amd64
"""

RETURN = r"""
is_missing:
  description: Whether the node did not have the image, or not its whole content.
  returned: with O(state=present)
  type: bool
  sample: false
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError, program_runner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.containerd import (
    PIN,
    Containerd,
    name_on_node,
    remove_abandoned,
)


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": ["checked", "present", "verified", "absent"], "required": True},
        **{name: {"type": "str", "default": ""} for name in ("image", "architecture", "built_for")},
        **{name: {"type": "path"} for name in ("archive", "folder", "socket")},
        "node": {"type": "str"},
        "ctr": {"type": "list", "elements": "str"},
    }


def present(module, containerd, name):
    """Import, pin and tidy. Return the result."""
    archive, dry, is_missing = module.params["archive"], module.check_mode, not containerd.is_whole(name)
    if is_missing and not archive:
        return {"changed": dry, "is_missing": True}
    if is_missing:
        remove_abandoned(module.params["folder"])
        containerd.change("images", "import", archive)  # containerd compares the content with the digest in the name
        if not containerd.is_whole(name):
            raise HostError(f"{archive} has no image {name}, or not its whole content")
    pins = any(image.name == name and PIN not in image.labels for image in containerd.images())
    if pins and not dry:
        containerd.change("images", "label", name, PIN)
    is_tidied = containerd.remove_old(name, dry=dry)
    for text in containerd.warnings(pins=pins):
        module.warn(text)
    return {"changed": is_missing or pins or is_tidied, "is_missing": False}


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    options, state = module.params, module.params["state"]
    containerd = Containerd(options["node"], options["ctr"], options["socket"], program_runner(module))
    problems, name, result = [], name_on_node(options["image"]), {"changed": False}
    try:
        if state in ("checked", "present"):
            problems = containerd.problems(options["architecture"], options["built_for"])
        elif state == "verified":
            problems = containerd.missing(options["image"])
        elif Path(options["socket"]).exists():
            result["changed"] = containerd.remove_old(name, dry=module.check_mode)
        if problems:
            module.fail_json(msg="\n".join(problems))
        module.exit_json(**(present(module, containerd, name) if state == "present" else result))
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
