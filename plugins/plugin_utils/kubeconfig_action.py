# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""kubernetes.core's action, which finds and decrypts the kubeconfig on the controller, with errors that say where it was given."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail, AnsibleError, AnsibleFileNotFound
from ansible_collections.kubernetes.core.plugins.action.k8s_info import ActionModule as CoreActionModule

GIVEN_BY = "the option kubeconfig, in the rebalance playbook the variable rebalance_kubeconfig"


class ActionModule(CoreActionModule):
    """The action of both modules."""

    def get_kubeconfig(self, kubeconfig, remote_transport, new_module_args):
        """As kubernetes.core's; raises AnsibleActionFail."""
        try:
            super().get_kubeconfig(kubeconfig, remote_transport, new_module_args)
        except AnsibleFileNotFound as error:
            raise AnsibleActionFail(
                f"kubeconfig: there is no file {kubeconfig} on the machine where Ansible runs. Check {GIVEN_BY}."
            ) from error
        except AnsibleError as error:
            raise AnsibleActionFail(f"kubeconfig: {kubeconfig} cannot be used: {error}. Check {GIVEN_BY}.") from error
