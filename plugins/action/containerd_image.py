# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables of the role service_image to the module on the node, and copy the archive to a node that does not have the image."""

from __future__ import annotations

import random

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.filter.failure_text import failure_text
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image import ServiceImage

NAMES = {"ctr": "ctr", "socket": "containerd_socket", "folder": "node_folder", "architecture": "architecture"}


class ActionModule(ActionBase):
    """The action of containerd_image."""

    def run(self, tmp=None, task_vars=None):
        """Run the module. If the node lacks the image, copy the archive, and run it again."""
        result = super().run(tmp, task_vars)
        given = RoleVariables("service_image", self._templar, task_vars)
        arguments = {"node": task_vars["inventory_hostname"], **{option: given(name) for option, name in NAMES.items()}, **self._task.args}
        archive = arguments.pop("archive", "")
        if arguments["state"] == "verified":
            arguments["image"] = ServiceImage(given).reference
        found = self._execute_module(module_args=arguments, task_vars=task_vars)
        if found.get("is_missing") and not self._task.check_mode:
            found = self._imported(archive, arguments, task_vars)
        return result | found

    def _imported(self, archive, arguments, task_vars):
        shell, folder, copied = self._connection._shell, arguments["folder"], ""
        try:
            made = self._low_level_execute_command(shell.mkdtemp(f"kube-scheduling-image-{random.randrange(10**12)}", tmpdir=folder), False)
            copied = made["stdout"].strip().partition("=")[2] if made["rc"] == 0 else ""
            if not copied:
                raise AnsibleError(f"the folder {folder} cannot be used: {made['stderr'].strip()}")
            file = self._transfer_file(archive, shell.join_path(copied, "image.tar"))
            found = self._execute_module(module_args={**arguments, "archive": file}, task_vars=task_vars)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            found = {"failed": True, "msg": str(error)}
        finally:
            if copied:
                self._low_level_execute_command(shell.remove(copied, recurse=True), sudoable=False)
        if found.get("failed"):
            found["msg"] = (
                f"{arguments['node']}: the image {arguments['image']} is not imported: {failure_text(found)}. Check the free disk space of "
                f"{folder} and of containerd's folder (df -h), and run this again: an import that was interrupted is repeated"
            )
        return found
