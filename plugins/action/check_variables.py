# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refuse wrong variables of a role or a playbook in one message, before anything is read or done."""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from pathlib import Path

import yaml
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules import site
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.nearest import nearest_name
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain

COLLECTION = "ansible_collections.onprem.kube_scheduling"
RULES = f"{COLLECTION}.plugins.module_utils.installation.rules"
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
CONTAINERS = {"list": (list, "list"), "dict": (dict, "dictionary")}
RESERVED = {
    "check_config": "the program would end after the check",
    "context": "the program has no kubeconfig of yours, and {prefix}context is the context of the role",
    "kubeconfig": "the program has no kubeconfig of yours, and {prefix}kubeconfig is the kubeconfig of the role",
}
"""Settings with which a program would not do its work in the cluster, and the reasons."""


class ActionModule(ActionBase):
    """The action of check_variables. There is no module on the host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the task, which has failed if there is a mistake."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(ARGUMENTS)
        variables = Variables(self._templar, task_vars)
        role = Path(task_vars["role_path"]) if options["argument_spec"] is None and "role_path" in task_vars else None
        spec = options["argument_spec"] or {}
        if role:
            document = plain(self._loader.load_from_file(str(role / "meta" / "argument_specs.yml")))
            spec = document["argument_specs"]["main"]["options"]
        prefix = f"{role.name}_" if role else options["prefix"] or ""
        unused = {f"{prefix}{name}": reason for name, reason in options["without_effect"].items() if f"{prefix}{name}" in task_vars}
        # The result is a fact of an earlier run for the same host.
        names = [name for name in task_vars if spec and re.match(prefix, name) and name not in {*unused, f"{prefix}result"}]
        values, found = compared({name: variables[name] for name in names if name in spec}, spec, options, variables.errors)
        mistakes = list(unknown_names([name for name in names if name not in spec], spec, prefix))
        mistakes += [text for texts in found.values() for text in texts]
        mistakes += [text for name in options["files"] if values[name] for text in self._file_mistakes(name, values[name], task_vars)]
        if options["settings"]:
            program, documents = options["settings"]["program"], variables[options["settings"]["documents"]] or {}
            mistakes += [text for label, settings in documents.items() for text in settings_mistakes(program, label, settings, prefix)]
        warnings = [f"{name} has no effect in this role: {reason}" for name, reason in unused.items()]
        # The rules see the default of a wrong variable, which has its own sentence already.
        variables.update(values)
        for name in [role.name] if role else options["rules"]:
            # One file has all rules of the playbooks of the installation.
            rules = site if hasattr(site, name) else importlib.import_module(f"{RULES}.{name}")
            sentences = getattr(rules, name if rules is site else "mistakes")(variables)
            mistakes += [text for text in sentences if text.partition(" ")[0] not in found]
            warnings += rules.remarks(variables) if hasattr(rules, "remarks") else []
        mistakes += options["others"]
        # These errors have their cause in the value of a variable, which has a sentence of its own.
        mistakes = mistakes or [f"{name} cannot be evaluated: {error}" for name, error in variables.errors.items()]
        result |= {"changed": False, "failed": bool(mistakes), "msg": "\n".join(mistakes)}
        return {**result, "warnings": warnings} if warnings else result

    def _file_mistakes(self, name, given, task_vars):
        path = Path(given).expanduser().resolve()
        return file_mistakes(name, given, path, self._stat(path, task_vars), self._stat(path.parent, task_vars))

    def _stat(self, path, task_vars):
        """Return whether the path exists on the host, is a folder, and can be written, as ansible.builtin.stat does."""
        if self._connection.transport == "local":
            return {"exists": path.exists(), "isdir": path.is_dir(), "writeable": os.access(path, os.W_OK)}
        arguments = {"path": str(path), "follow": True, "get_attributes": False, "get_checksum": False, "get_mime": False}
        return self._execute_module(module_name="ansible.legacy.stat", module_args=arguments, task_vars=task_vars).get("stat", {})


class Variables(dict):
    """The variables of a host. Each is evaluated when it is first read. One that does not exist, or that has one of ``errors``, is None."""

    def __init__(self, templar, given):
        super().__init__()
        self._templar, self._given, self.errors = templar, given, {}

    def __missing__(self, name):
        self[name] = self._given.get(name)
        if name in self._given and name != "hostvars":  # a rule reads only a part of it
            try:
                self[name] = plain(self._templar.template(self._given[name]))
            except AnsibleError as error:
                # ansible-core 2.18 adds the template, which may have a secret.
                self[name], self.errors[name] = None, " ".join(str(error).partition(". String: ")[0].split())
        return self[name]


def compared(given, spec, options, unread):
    """Return the values of all variables of an argument spec, and the mistakes by name.

    A variable that is unset or wrong has its default, or None. ``options`` has the ``minima``, and the names that are ``converted`` or
    ``secret``. ``unread`` has the errors of those that cannot be evaluated.
    """
    values, found = {name: option.get("default") for name, option in spec.items()}, {}
    for name, option in spec.items():
        value = given.get(name)
        if name in unread:
            reason = "correct its template" if name in options["secret"] else unread[name]
            errors = [f"{name} has a value that cannot be evaluated: {reason}"]
        elif name not in given or is_unset(value, option):
            errors = [f"missing required arguments: {name}"] if option.get("required") else []
        else:
            errors = shape_mistakes(name, value, option, options)
            if not errors:
                checked = ArgumentSpecValidator({name: option}).validate({name: value})
                value, errors = checked.validated_parameters[name], list(checked.error_messages)
            if name in options["minima"]:
                errors += minimum_mistakes(name, given[name], options["minima"][name])
            values[name] = values[name] if errors else value
        if errors:
            found[name] = errors
    return values, found


def is_unset(value, option):
    """Return whether a value means that the variable is not set, as an empty answer of a survey does."""
    has_default = option.get("default") is not None
    return (value is None and not has_default) or (value == "" and (not has_default or option.get("type") == "list"))


def shape_mistakes(name, value, option, options):
    """Return the mistake of a value that ansible-core would change, such as a text in place of a list, or null."""
    container, word = CONTAINERS.get(option.get("type"), (object, ""))
    if name not in options["converted"] and not isinstance(value, container):
        form = "{KEY: VALUE}" if "dict" in (option.get("type"), option.get("elements")) else "VALUE"
        shown = "" if name in options["secret"] else f"{json.dumps(value)}, which is "
        form = f"[{form}]" if word == "list" else form
        return [f"{name} is {shown}no {word}: write {name}: {form} in a file, or give it to -e as JSON"]
    return [f"{name} is null: remove it, or give it a value"] if value is None else []


def minimum_mistakes(name, value, minimum):
    """Return the mistake of a number below its minimum. A text with another form, such as 30s, is none."""
    is_number = isinstance(value, (int, str)) and re.fullmatch("[+-]?[0-9]+", str(value))
    if isinstance(value, bool) or (is_number and int(value) < minimum):
        return [f"{name} is {value}: it must be a number, at least {minimum}"]
    return []


def unknown_names(names, known, prefix=""):
    """Yield the sentences about unknown names: one for each name that is similar to a known one, and one for all others."""
    without_prefix = {re.sub(f"^{prefix}", "", name): name for name in known}
    others = []
    for name in names:
        near = nearest_name(re.sub(f"^{prefix}", "", name), without_prefix)
        if near:
            yield f"There is no variable {name}; the nearest is {without_prefix[near]}."
        else:
            others.append(name)
    if others:
        yield f"There is no variable {', '.join(others)}. The variables are {', '.join(sorted(known))}."


def file_mistakes(name, given, path, file, folder):
    """Return the mistake of an absolute path to which the run cannot write.

    ``file`` and ``folder`` are what ansible.builtin.stat returns for the path and for its folder.
    """
    if file.get("isdir"):
        return [f"{name} is {given}, which is a folder: name a file in it"]
    if not folder.get("exists"):
        return [f"{name} is {given}, and there is no folder {path.parent}: create it first"]
    can_be_written = (file if file.get("exists") else folder).get("writeable")
    return [] if can_be_written else [f"{name} is {given}, and {path} cannot be written: name another file"]


def settings_mistakes(program, label, settings, prefix):
    """Return a sentence for each mistake in the settings of a program, which it reads with the same code. ``label`` begins the sentences.

    Variables of the environment do not count, and files that the settings name are not read: the controller does not have them.
    """
    # The libraries of the programs are needed only here.
    error_type = importlib.import_module(f"{COLLECTION}.services.common.typed_settings").SettingsError
    reader = importlib.import_module(f"{COLLECTION}.services.{'extender.config' if program == 'extender' else program}.settings")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "settings.yml")
        file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        try:
            inputs = [f"--config={file}"], {}
            read = reader.read_settings(reader.read_inputs(*inputs)) if program == "extender" else reader.read_settings(*inputs)
            texts = list(getattr(read, "refused", ()))  # agents that the extender leaves out
        except error_type as error:
            texts = error.errors
    # The lines of the file are not those of the caller.
    start = re.compile(f"file {re.escape(str(file))}(, line [0-9]+)?[:,]? ")
    found = [start.sub(f"{label}: ", text) for text in texts]
    reserved = {name: reason.format(prefix=prefix) for name, reason in RESERVED.items() if name in settings}
    return found + [f"{label} has {name}: remove it, because {reason}" for name, reason in reserved.items()]
