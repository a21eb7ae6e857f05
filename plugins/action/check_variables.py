# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refuse wrong variables of a role or a playbook in one message, before anything is read or done."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.variables import (
    VariableChecks,
    check_variables,
    file_mistakes,
    reserved_settings,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.program_settings import settings_mistakes
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain

RULES = "ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules"
NAMES = {"type": "list", "elements": "str", "default": []}
ARGUMENTS = {
    "argument_spec": {"type": "dict"},
    "prefix": {"type": "str"},
    "minima": {"type": "dict", "default": {}},
    "converted": NAMES,
    "secret": {**NAMES, "no_log": False},
    "files": NAMES,
    "rules": NAMES,
    "settings": {
        "type": "dict",
        "options": {
            "program": {"type": "str", "required": True, "choices": ["extender", "rebalancer", "rescuer"]},
            "documents": {"type": "str", "required": True},
        },
    },
    "without_effect": {"type": "dict", "default": {}},
    "others": NAMES,
}


class ActionModule(ActionBase):
    """The action of check_variables. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the task, which has failed if there is a mistake."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        self._variables, self._unread = task_vars or {}, {}
        role = Path(self._variables["role_path"]) if options["argument_spec"] is None and "role_path" in self._variables else None
        spec = self._spec_of(role) if role else options["argument_spec"] or {}
        prefix = f"{role.name}_" if role else options["prefix"] or ""
        unused = {f"{prefix}{name}": reason for name, reason in options["without_effect"].items() if f"{prefix}{name}" in self._variables}
        # The result is a fact of an earlier run for the same host.
        names = [name for name in self._variables if spec and re.match(prefix, name) and name not in {*unused, f"{prefix}result"}]
        given = self._values(names)
        mistakes = [
            f"{name} has a value that cannot be evaluated: {'correct its template' if name in options['secret'] else error}"
            for name, error in self._unread.items()
        ]
        checks = VariableChecks(spec, prefix, options["minima"], options["converted"], options["secret"])
        values, wrong, found = check_variables(given, checks, _check_value)
        mistakes, wrong = mistakes + found, wrong | set(self._unread)
        mistakes += [text for name in options["files"] if values[name] for text in self._file_mistakes(name, values[name])]
        mistakes += self._settings_mistakes(prefix, **options["settings"] or {})
        warnings = [f"{name} has no effect in this role: {reason}" for name, reason in unused.items()]
        for name in [role.name] if role else options["rules"]:
            rules = importlib.import_module(f"{RULES}.{name}")
            reads = getattr(rules, "READS", ())
            found = rules.mistakes({**values, **dict.fromkeys(reads), **self._values(reads)})
            # The rules see the default of a wrong variable, which has its own sentence already.
            mistakes += [text for text in found if text.partition(" ")[0] not in wrong]
            warnings += rules.remarks(self._values(reads)) if hasattr(rules, "remarks") else []
        mistakes += options["others"]
        # These errors have their cause in the value of a variable, which has a sentence of its own.
        mistakes = mistakes or [f"{name} cannot be evaluated: {error}" for name, error in self._unread.items()]
        result |= {"changed": False, "failed": bool(mistakes), "msg": "\n".join(mistakes)}
        return {**result, "warnings": warnings} if warnings else result

    def _spec_of(self, role):
        return plain(self._loader.load_from_file(str(role / "meta" / "argument_specs.yml")))["argument_specs"]["main"]["options"]

    def _values(self, names):
        """Return the values of the variables that exist. Each is evaluated once, and an error is kept in ``_unread``."""
        values = {}
        for name in names:
            if name == "hostvars":  # a rule reads only a part of it
                values[name] = self._variables[name]
            elif name in self._variables:
                try:
                    values[name] = plain(self._templar.template(self._variables[name]))
                except AnsibleError as error:
                    # ansible-core 2.18 adds the template, which may have a secret.
                    self._unread[name] = " ".join(str(error).partition(". String: ")[0].split())
        return values

    def _settings_mistakes(self, prefix, program=None, documents=None):
        found = []
        for label, settings in (self._values([documents]).get(documents) or {}).items():
            found += settings_mistakes(program, label, settings) + reserved_settings(label, settings, prefix)
        return found

    def _file_mistakes(self, name, given):
        path = Path(given).expanduser().resolve()
        return file_mistakes(name, given, str(path), self._stat(path), self._stat(path.parent))

    def _stat(self, path):
        """Return whether the path exists on the host, is a folder, and can be written, as ansible.builtin.stat does."""
        if self._connection.transport == "local":
            return {"exists": path.exists(), "isdir": path.is_dir(), "writeable": os.access(path, os.W_OK)}
        arguments = {"path": str(path), "follow": True, "get_attributes": False, "get_checksum": False, "get_mime": False}
        found = self._execute_module(module_name="ansible.legacy.stat", module_args=arguments, task_vars=self._variables)
        return found.get("stat", {})


def _check_value(name, option, value):
    result = ArgumentSpecValidator({name: option}).validate({name: value})
    return result.validated_parameters[name], list(result.error_messages)
