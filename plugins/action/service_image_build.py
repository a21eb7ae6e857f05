# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Name, build, save and push the image of the services on the controller. The role service_image has the variables."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image import ImageError, ServiceImage

ARGUMENTS = {"state": {"type": "str", "choices": ["named", "checked", "present", "absent"], "required": True}}
NAMES = ("delivery", "reference", "registry", "base", "python_version", "architecture", "engine", "build_arguments", "wheelhouse")
NAMES += ("pip_arguments", "archive_folder")


class ActionModule(ActionBase):
    """The action of service_image_build. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Return the reference of the image and its archive."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        given = RoleVariables("service_image", self._templar, task_vars)
        image, state, changed = ServiceImage({name: given(name) for name in NAMES}), options["state"], False
        try:
            if state == "checked" and (problems := image.problems()):
                raise ImageError("\n".join(problems))
            if state == "present":
                changed = image.deliver(self._task.check_mode)
            elif state == "absent":
                changed = image.remove(self._task.check_mode)
            reference = "" if state == "absent" else image.reference
            file = str(image.archive) if image.is_archive else ""
            return {**result, "changed": changed, "reference": reference, "file": file, "architecture": given("architecture")}
        except (ImageError, OSError) as error:
            return {**result, "failed": True, "msg": str(error)}
