# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Actions that bring files of the controller to hosts."""

from __future__ import annotations

from ansible.plugins.action import ActionBase


class ProgramAction(ActionBase):
    """An action that brings files to the host."""

    def _brought(self, files):
        """Copy files to the temporary folder of the host, which Ansible removes. Return their paths there."""
        folder, found = self._connection._shell.tmpdir or self._make_tmp_path(), {}
        for name, file in files.items():
            if file:
                found[name] = self._connection._shell.join_path(folder, name)
                self._transfer_file(str(file), found[name])
        self._fixup_perms2((folder, *found.values()))
        return found
