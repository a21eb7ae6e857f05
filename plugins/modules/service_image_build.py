#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_image_build
short_description: Name, build, save and push the image of the services on the controller
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - It takes the variables of the role P(onprem.kube_scheduling.service_image#role) by itself, and runs on the controller.
extends_documentation_fragment:
  - onprem.kube_scheduling.attributes
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing anything.
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
      - With V(named), only return the reference. With V(checked), return why the image cannot be delivered, too.
      - With V(present), build the image if it is not there, and save or push it.
      - With V(absent), remove the archives from the controller.
    type: str
    choices: [named, checked, present, absent]
    required: true
"""

EXAMPLES = r"""
- name: Build the image
  onprem.kube_scheduling.service_image_build:
    state: present
  register: image
  run_once: true
"""

RETURN = r"""
architecture:
  description: The architecture of the image.
  returned: success
  type: str
  sample: amd64
problems:
  description: The reasons for which the controller cannot deliver the image, with O(state=checked).
  returned: success
  type: list
  elements: str
  sample: ["The registry registry.example.org has no image registry.example.org/services:1: check the name, the tag and the digest"]
reference:
  description: >-
    The reference of the image. It has the digest if the controller has the archive, or the engine that has pushed the image.
  returned: success
  type: str
  sample: kube-scheduling.onprem/services:1.0.0-0a1b2c3d4e5f@sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
file:
  description: The file of the archive. It is empty with another delivery.
  returned: success
  type: str
  sample: /home/admin/.cache/onprem-kube-scheduling/images/kube-scheduling-services-1.0.0-0a1b2c3d4e5f-amd64.oci.tar
"""
