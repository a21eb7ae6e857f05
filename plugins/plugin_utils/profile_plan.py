# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The new text of a KubeSchedulerConfiguration for the options of scheduler_profile, computed on the controller without any access."""

from __future__ import annotations

import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import YamlTextError, compose
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.conversion import convert_config
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.decoding import type_problems
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.harmful_settings import harmful_settings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.manifest_flags import (
    contradictions,
    flags_of,
    take_over,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.merge import ProfileChange, merge
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.plugin_tables import NEWEST
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import (
    UNKNOWN_FIELD,
    UNSAFE,
    SchedulerConfigError,
    problems_text,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.static_pod import (
    scheduler_container,
    words_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.validation import config_problems
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import (
    KIND,
    ConfigTarget,
    short_name,
    target_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_editing import edit, same_value
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_rendering import render


class ProfilePlan(t.NamedTuple):
    """The text before (None: there is none) and after the change (None: there is still none), its value, and warnings."""

    before: t.Optional[str]
    after: t.Optional[str]
    config: t.Optional[dict]
    warnings: list

    @property
    def changed(self):
        """Return whether the text has to be written."""
        return self.before != self.after


def plan_profile(text, options, place, command=None):
    """Return the plan for an existing text, or for None. Raise SchedulerConfigError, which names the place and the field.

    ``place`` names the file or the ConfigMap for messages. ``command`` is the command line of the kube-scheduler that reads it.
    """
    before = read_config(text, place)
    own = None if before is None else ConfigTarget(short_name(before.get("apiVersion")), None)
    if own:
        # A merge reads a value of a wrong type as empty, and would replace it.
        _refuse(place, problems_text(problem for problem in type_problems(before, own) if problem.kind != UNKNOWN_FIELD))
    target = _target_of(options, own)
    change = _change_of(options)
    if change.absent and same_value(merge(before, change, target).config, before):
        return ProfilePlan(text, text, before, [])
    converted, notes = convert_config(before, target) if before is not None else (None, [])
    if target.is_after_tables:
        notes.append(f"Kubernetes 1.{target.minor} is newer than the tables of this module; the plugins and fields of 1.{NEWEST} are known")
    # Without a file, a kube-scheduler has the profile default-scheduler.
    runs_without_file = bool(command) and "config" not in flags_of(command)
    merged = merge(converted, change, target, runs_without_file=runs_without_file)
    config, notes = merged.config, [*notes, *merged.notes]
    if command:
        flags = flags_of(command)
        config, more = take_over(config, flags)
        notes += more
        _refuse(place, "\n".join(contradictions(config, flags)))
    known = frozenset(options["known_plugins"] or ())
    problems = config_problems(config, target, known)
    # A version after the tables may have more fields.
    kept = UNKNOWN_FIELD if change.force or target.is_after_tables else ""
    refused = (problem for problem in problems if problem.is_refused_by_scheduler or problem.kind == UNSAFE)
    _refuse(place, problems_text(problem for problem in refused if problem.kind != kept))
    notes += [str(problem) for problem in (*problems, *harmful_settings(config, target, known))]
    after, more = _new_text(text, config)
    return ProfilePlan(text, after, config, [f"{place}: {note}" for note in [*notes, *more]])


def read_config(text, place):
    """Return the configuration of a text as plain values. None if there is no text. Raise SchedulerConfigError."""
    if text is None:
        return None
    try:
        value = compose(text)[1]
    except YamlTextError as error:
        raise SchedulerConfigError(f"{place} is no YAML that this collection can read: {error}; correct the text") from None
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        kind = value.get("kind") if isinstance(value, dict) else None
        found = f"has the kind {kind}" if isinstance(kind, str) else "has no kind"
        raise SchedulerConfigError(f"{place} {found}, and {KIND} is expected; check that it is the configuration of kube-scheduler")
    return value


def command_of(text, place):
    """Return the command line of kube-scheduler in the text of a static pod's manifest. Raise SchedulerConfigError."""
    try:
        pod = compose(text)[1]
    except YamlTextError as error:
        raise SchedulerConfigError(f"{place} is no YAML: {error}; correct the manifest") from None
    try:
        return words_of(scheduler_container(pod))
    except SchedulerConfigError as error:
        raise SchedulerConfigError(f"{place} {error}") from None


def _change_of(options):
    return ProfileChange(
        name=options["name"],
        plugins=options["plugins"],
        plugin_config=options["plugin_config"],
        percentage=options["percentage_of_nodes_to_score"],
        extenders=options["extenders"],
        leader_election=options["leader_election"],
        client_connection=options["client_connection"],
        absent=options["state"] == "absent",
        force=options["force"],
    )


def _target_of(options, own):
    """Return the target of the options. To remove something, no version has to be given."""
    if own and not options["kubernetes_version"] and not options["api_version"]:
        return own
    return target_of(options["kubernetes_version"], options["api_version"] or ("" if options["kubernetes_version"] else "v1"))


def _refuse(place, text):
    if text:
        raise SchedulerConfigError(f"{place}: {text}")


def _new_text(text, config):
    if text is None or compose(text)[0] is None:
        # A text that has only comments keeps them.
        start = "" if not text or not text.strip() else text.rstrip("\n") + "\n"
        return f"{start}{render(config)}\n", []
    edited = edit(text, config)
    lost = [] if edited.keeps_comments else ["the whole text was written again, so its comments are lost"]
    return edited.text, lost
