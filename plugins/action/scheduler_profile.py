# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the configuration from the host or the cluster, compute the new one on the controller, and write it if it changes.

Hosts of a control plane need no Python library for it.
"""

from __future__ import annotations

import base64
import hashlib
import os

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import (
    AUTH_ARG_SPEC,
    HiddenSecrets,
    check_kubernetes_core,
    hide_adhoc_options,
    named_kubeconfig,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_plan import command_of, plan_profile, read_config
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.start_folder import each_path, found_path

NEW_FILE_MODE = "0600"
"""The mode of a new file without the option mode. The file can have the key of an extender's client certificate."""
TRIES = 3
"""The number of times that the file is read and changed, if another program changes it meanwhile."""

ARGUMENTS = {
    "path": {"type": "path"},
    "configmap": {
        "type": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "kube-system"},
            "key": {"type": "str", "default": "config.yaml", "no_log": False},
        },
    },
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str"},
    "plugins": {"type": "dict"},
    "plugin_config": {"type": "list", "elements": "dict"},
    "percentage_of_nodes_to_score": {"type": "int"},
    "extenders": {"type": "list", "elements": "dict"},
    "leader_election": {"type": "dict"},
    "client_connection": {"type": "dict"},
    "kubernetes_version": {"type": "str"},
    "api_version": {"type": "str"},
    "known_plugins": {"type": "list", "elements": "str"},
    "manifest": {"type": "path"},
    "command": {"type": "list", "elements": "str"},
    "force": {"type": "bool", "default": False},
    "validate": {"type": "str"},
    "backup": {"type": "bool", "default": False},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
}
PRIVATE_KEY = "keyData"
HIDDEN = "(hidden)"
FILE_OPTIONS = ("validate", "backup", "owner", "group", "mode")
CHANGES = ("plugins", "plugin_config", "percentage_of_nodes_to_score", "leader_election", "client_connection")


class ActionModule(HiddenSecrets, ActionBase):
    """The action of scheduler_profile. There is no module on the host."""

    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        """Return the result of the task."""
        super().run(tmp, task_vars)
        check_kubernetes_core()
        hide_adhoc_options(self._task)
        try:
            options = self._options()
            write = self._run_file if options["path"] else self._run_config_map
            return write(options, task_vars or {})
        except SchedulerConfigError as error:
            raise AnsibleActionFail(str(error)) from None
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _options(self):
        """Return the checked options of the task. Raise AnsibleActionFail or SchedulerConfigError."""
        exclusive = [("path", "configmap"), ("manifest", "command"), *(("configmap", name) for name in FILE_OPTIONS)]
        _validated, options = self.validate_argument_spec(
            {**AUTH_ARG_SPEC, **ARGUMENTS},
            # An option with a default counts as given only after the check, so it is checked below.
            mutually_exclusive=[pair for pair in exclusive if "backup" not in pair],
            required_one_of=[("path", "configmap"), ("name", "extenders", "leader_election", "client_connection")],
        )
        if options["backup"] and options["configmap"]:
            raise AnsibleActionFail("backup: it is only for files; leave it out with configmap")
        if options["state"] == "present" and not (options["kubernetes_version"] or options["api_version"]):
            raise AnsibleActionFail("one of the following is required: kubernetes_version, api_version")
        needs_name = [name for name in CHANGES[:3] if options[name] is not None]
        if needs_name and not options["name"]:
            raise AnsibleActionFail(f"{needs_name[0]}: it belongs to a profile; add the option name")
        without_effect = [name for name in CHANGES if options[name] is not None]
        if options["state"] == "absent" and without_effect:
            raise AnsibleActionFail(f"{without_effect[0]}: it has no effect with state absent; leave it out")
        if options["validate"] and "%s" not in options["validate"]:
            raise AnsibleActionFail("validate: it does not contain %s, the place for the path of the new file; add it")
        return plain(options)

    def _run_file(self, options, task_vars):
        path = self._remote_expand_user(options["path"])
        place = f"the file {path}"
        command = self._command(options, task_vars)
        for _attempt in range(TRIES):
            before = self._read(path, task_vars)
            plan = plan_profile(before, options, place, command)
            result = _result(plan, path)
            if plan.after is None or not (plan.changed or any(options[name] is not None for name in ("owner", "group", "mode"))):
                return result
            # Another program may have written the file since, and its change must not be lost.
            if self._checksum(path, task_vars) == _checksum_of(before):
                return {**result, **self._write(path, plan, options, task_vars)}
        raise AnsibleActionFail(f"{place} is changed by another program again and again; stop it, and run the task again")

    def _command(self, options, task_vars):
        """Return the command line of the kube-scheduler whose flags are compared with the file."""
        if options["manifest"]:
            manifest = self._remote_expand_user(options["manifest"])
            text = self._read(manifest, task_vars)
            if text is None:
                raise SchedulerConfigError(f"manifest: there is no file {manifest} on the host; correct the path, or leave manifest out")
            return command_of(text, f"the manifest {manifest}")
        return options["command"]

    def _read(self, path, task_vars):
        """Return the text of a file on the host, or None if there is no file."""
        found = self._execute_module(module_name="ansible.legacy.slurp", module_args={"src": path}, task_vars=task_vars)
        if found.get("failed"):
            if self._checksum(path, task_vars) is None:
                return None
            raise AnsibleActionFail(f"the file {path} cannot be read: {found.get('msg')}")
        try:
            return base64.b64decode(found["content"]).decode()
        except UnicodeDecodeError:
            raise SchedulerConfigError(f"the file {path} is not a text in UTF-8; check the path") from None

    def _checksum(self, path, task_vars):
        """Return the checksum of a file on the host, or None if there is no file."""
        found = self._execute_remote_stat(path, all_vars=task_vars, follow=True)
        if found["exists"] and not found.get("isreg", True):
            raise SchedulerConfigError(f"{path} is not a file; give the path of the configuration itself")
        return found["checksum"] if found["exists"] else None

    def _write(self, path, plan, options, task_vars):
        """Write the file by ansible.builtin.copy, and return its part of the result."""
        mode = options["mode"] if options["mode"] is not None or plan.before is not None else NEW_FILE_MODE
        arguments = {"content": plan.after, "dest": path, "follow": True, "mode": mode}
        arguments |= {name: options[name] for name in ("validate", "backup", "owner", "group") if options[name]}
        task = self._task.copy()
        task.environment = [{}]
        self._compute_environment_string(task.environment[0])
        task.args = {name: value for name, value in arguments.items() if value is not None}
        copy = self._shared_loader_obj.action_loader.get(
            "ansible.legacy.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        written = copy.run(task_vars=task_vars)
        if written.get("failed"):
            details = "\n".join(str(written[key]).strip() for key in ("stderr", "stdout") if written.get(key))
            raise AnsibleActionFail(f"the file {path} is not changed: {written.get('msg')}" + (f"\n{details}" if details else ""))
        result = {"changed": bool(written.get("changed"))}
        if written.get("backup_file"):
            result["backup_file"] = written["backup_file"]
        return result

    def _run_config_map(self, options, task_vars):
        # The libraries of the API client are needed only here.
        from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_config_map import update_config_map

        command = self._command(options, task_vars)
        environment = {**os.environ, **{name: str(value) for name, value in self._full_environment().items()}}
        options["kubeconfig"] = self._kubeconfig(options["kubeconfig"])
        place = "the ConfigMap {namespace}/{name}, key {key}".format(**options["configmap"])
        plan = update_config_map(
            options,
            environment,
            lambda text: plan_profile(text, options, place, command),
            check_mode=self._task.check_mode,
        )
        return _result(plan, place)

    def _kubeconfig(self, kubeconfig):
        """Return the option as a dict, or as a path on the controller whose file is decrypted, as kubernetes.core does."""
        with named_kubeconfig(kubeconfig):
            if not isinstance(kubeconfig, str) or not kubeconfig:
                return kubeconfig
            files = [self._find_needle("files", path) for path in each_path(kubeconfig, found_path).split(os.pathsep)]
            return os.pathsep.join(self._loader.get_real_file(file) for file in files)


def _checksum_of(text):
    return None if text is None else hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _result(plan, place):
    """Return the result of the task. Private keys of extenders are not shown."""
    diff = {"before": plan.before or "", "after": plan.after or ""}
    for key in {*_private_keys(plan.config), *_private_keys(read_config(plan.before, place))}:
        diff = {name: text.replace(key, HIDDEN) for name, text in diff.items()}
    return {
        "changed": plan.changed,
        "config": _without_private_keys(plan.config or {}),
        "warnings": plan.warnings,
        "diff": {**diff, "before_header": place, "after_header": place},
    }


def _private_keys(value):
    """Yield each private key in a configuration, which is base64."""
    if isinstance(value, dict):
        for name, child in value.items():
            if name == PRIVATE_KEY and isinstance(child, str) and child:
                yield child
            else:
                yield from _private_keys(child)
    elif isinstance(value, list):
        for child in value:
            yield from _private_keys(child)


def _without_private_keys(value):
    if isinstance(value, dict):
        return {name: HIDDEN if name == PRIVATE_KEY and child else _without_private_keys(child) for name, child in value.items()}
    return [_without_private_keys(child) for child in value] if isinstance(value, list) else value
