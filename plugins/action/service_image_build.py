# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Name, build, save and push the image of the services on the controller. The role service_image has the variables."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image import ImageError, image_of

ARGUMENTS = {"state": {"type": "str", "choices": ["named", "checked", "present", "absent"], "required": True}}


class ActionModule(ActionBase):
    """The action of service_image_build. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Return the reference of the image and its archive."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        given = RoleVariables("service_image", self._templar, task_vars)
        image, state, changed = image_of(given), options["state"], False
        try:
            problems = image.problems() if state == "checked" else []
            if state == "present":
                changed = image.deliver(self._task.check_mode)
            elif state == "absent":
                changed, result["warnings"] = image.remove(self._task.check_mode)  # the nodes come next
            reference = "" if state == "absent" else image.reference
            file = str(image.archive) if image.is_archive else ""
            found = {"reference": reference, "file": file, "architecture": given("architecture"), "problems": problems}
            return {**result, "changed": changed, **found}
        except (ImageError, OSError) as error:
            return {**result, "failed": True, "msg": str(error)}
        except (AttributeError, TypeError):
            if state != "checked":
                raise
            # A variable has another type. The next task of the role names it.
            return {**result, "changed": False, "reference": "", "file": "", "architecture": "", "problems": []}
