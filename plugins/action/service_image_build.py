# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Name, build, save and push the image of the services on the controller. The role service_image has the variables."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image import ImageError, ServiceImage

ARGUMENTS = {"state": {"type": "str", "choices": ["named", "checked", "present", "absent"], "required": True}}


class ActionModule(ActionBase):
    """The action of service_image_build. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Return the reference of the image and its archive."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        given, state = RoleVariables("service_image", self._templar, task_vars), options["state"]
        result |= {"changed": False, "reference": "", "file": "", "architecture": given("architecture"), "problems": []}
        try:
            image = ServiceImage(given)
            if state == "checked":
                result["problems"] = list(image.problems())
            elif state == "present":
                result["changed"] = image.deliver(self._task.check_mode)
            elif state == "absent":
                result["changed"], result["warnings"] = image.remove(self._task.check_mode)  # the nodes come next
            result["reference"] = "" if state == "absent" else image.reference
            result["file"] = str(image.archive) if image.is_archive else ""
        except (ImageError, OSError) as error:
            result |= {"failed": True, "msg": str(error)}
        except (AttributeError, TypeError):
            if state != "checked":
                raise
            # A variable has another type. The next task of the role names it.
        return result
