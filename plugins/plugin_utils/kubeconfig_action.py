# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""kubernetes.core's action, which finds and decrypts the kubeconfig on the controller, with errors that say where it was given.

Relative paths start in the folder in which Ansible was started.

Each module has a file in plugins/action. A redirect in meta/runtime.yml would do the same, but module_defaults would then treat all modules
as one action, and the defaults of one module would also apply to the others.

It shows no secret: kubernetes.core's action returns the options of the task as they were given, and Ansible prints the variables of
``environment`` and the options of an ad-hoc task.
"""

from __future__ import annotations

import contextlib
import os

from ansible.errors import AnsibleActionFail, AnsibleError, AnsibleFileNotFound
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.secrets import (
    KUBECONFIG_VARIABLES,
    is_content,
    secrets_in,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_config_source import OPTION as SCHEDULER_CONFIG
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_config_source import PREFIX
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.start_folder import absolute_path, each_path, found_path, start_of

try:
    from ansible_collections.kubernetes.core.plugins.action.k8s_info import ActionModule as CoreActionModule
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
except ImportError:
    # An error of the task instead of one of the import, which Ansible shows as a traceback.
    CoreActionModule, AUTH_ARG_SPEC = ActionBase, None

WITHOUT_CORE = "the collection kubernetes.core is missing: run ansible-galaxy collection install 'kubernetes.core:>=6.2.0,<7.0.0'"
GIVEN_BY = "the option kubeconfig (in the playbooks: rebalance_kubeconfig or rescue_kubeconfig)"
HIDDEN = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"

SECRET_VARIABLES = {"K8S_AUTH_API_KEY": "api_key", "K8S_AUTH_PASSWORD": "password", "K8S_AUTH_PROXY": "proxy"}
"""Variables that hold secrets, and the options that take them."""


def _is_content(kubeconfig):
    return isinstance(kubeconfig, str) and is_content(kubeconfig)


def _is_secret(variable, value):
    return variable in SECRET_VARIABLES or (variable in KUBECONFIG_VARIABLES and _is_content(value))


def hide_adhoc_options(task):
    """Hide the secrets among the options of an ad-hoc task, which Ansible prints as the origin of a failure."""
    given = task.get_ds()
    options = given.get("args") if isinstance(given, dict) else None
    if not isinstance(options, dict):
        return
    secrets = secrets_in(options, os.environ)
    given["args"] = {name: HIDDEN if any(secret in str(value) for secret in secrets) else value for name, value in options.items()}


def check_kubernetes_core():
    """Raise AnsibleActionFail if the collection kubernetes.core is not installed."""
    if AUTH_ARG_SPEC is None:
        raise AnsibleActionFail(WITHOUT_CORE)


@contextlib.contextmanager
def named_kubeconfig(kubeconfig):
    """Raise AnsibleActionFail if the option has the content of a kubeconfig, or if its files cannot be found or decrypted."""
    if _is_content(kubeconfig):
        raise AnsibleActionFail(
            "kubeconfig: this text is the content of a kubeconfig, and a path or a dict is expected. "
            "Make a dict of it with the filter from_yaml."
        )
    try:
        yield
    except AnsibleFileNotFound:
        raise AnsibleActionFail(
            f"kubeconfig: there is no file {kubeconfig} on the machine where Ansible runs.{start_of(kubeconfig)} Check {GIVEN_BY}."
        ) from None
    except AnsibleError as error:
        raise AnsibleActionFail(f"kubeconfig: {kubeconfig} cannot be used: {error}. Check {GIVEN_BY}.") from None


class HiddenSecrets:
    """A part of actions: no secret of ``environment`` or of an option is shown with a command or in a result."""

    def _full_environment(self):
        """Return the variables of the task, with the secrets."""
        environment = {}
        super()._compute_environment_string(environment)
        return environment

    def _compute_environment_string(self, raw_environment_out=None):
        shown = {name: value for name, value in self._full_environment().items() if not _is_secret(name, value)}
        if isinstance(raw_environment_out, dict):
            raw_environment_out.clear()
            raw_environment_out.update(shown)
        return self._connection._shell.env_prefix(**shown)

    def _ensure_invocation(self, result):
        """Add nothing: the module returns its invocation where that is wanted, and Ansible has hidden the secrets in it."""
        return result


class ActionModule(HiddenSecrets, CoreActionModule):
    """The action of the modules that connect to a cluster."""

    def run(self, tmp=None, task_vars=None):
        """As kubernetes.core's; secrets in ``environment`` become options, because Ansible prints the variables of each command.

        The remarks of the module are printed.
        """
        check_kubernetes_core()
        environment = self._full_environment()
        for variable, option in SECRET_VARIABLES.items():
            if environment.get(variable) and self._task.args.get(option) is None:
                self._task.args[option] = environment[variable]
        hide_adhoc_options(self._task)
        for variable in KUBECONFIG_VARIABLES:
            if _is_content(environment.get(variable)) and self._task.args.get("kubeconfig") is None:
                raise AnsibleActionFail(
                    f"{variable} in the environment of the task has the content of a kubeconfig, and a path is expected. "
                    "Write the content to a file, or give it to the option kubeconfig as a dict."
                )
        self._find_scheduler_config()
        result = super().run(tmp, task_vars)
        # A task that prints them would be skipped in most runs.
        for remark in result.get("remarks") or ():
            self._display.display(remark)
        return result

    def get_kubeconfig(self, kubeconfig, remote_transport, new_module_args):
        """As kubernetes.core's; raises AnsibleActionFail."""
        paths = kubeconfig if remote_transport else each_path(kubeconfig, found_path)
        with named_kubeconfig(kubeconfig):
            super().get_kubeconfig(paths, remote_transport, new_module_args)

    def _full_environment(self):
        """Return the variables of the task, with the secrets. A module on the controller also gets the absolute paths of kubeconfigs."""
        environment = super()._full_environment()
        if self._connection.transport == "local":
            # Another user does not get the variables of this process.
            inherited = {} if self._connection.become else os.environ
            for variable in KUBECONFIG_VARIABLES:
                given = environment.get(variable, inherited.get(variable))
                paths = each_path(given, self._module_path)
                if paths != given:
                    environment[variable] = paths
        return environment

    def _find_scheduler_config(self):
        """Make the paths in the option scheduler_config absolute for a module on the controller."""
        given = self._task.args.get(SCHEDULER_CONFIG)
        entries = given.split(",") if isinstance(given, str) else given
        if entries and isinstance(entries, list) and self._connection.transport == "local":
            self._task.args[SCHEDULER_CONFIG] = [
                self._module_path(entry) if isinstance(entry, str) and not entry.startswith(PREFIX) else entry for entry in entries
            ]

    def _module_path(self, path):
        return absolute_path(path, self._loader.get_basedir())
