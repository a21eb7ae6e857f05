# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each thing has one name. Earlier names, which are listed here with the present ones, are not used again."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from tools.paths import ROOT
from tools.working_copy import repository_files

OLD_PATHS = {
    "plugins/module_utils/actions": "plugins/module_utils/operations",
    "plugins/module_utils/memory": "plugins/module_utils/state",
    "plugins/module_utils/scheduling": "plugins/module_utils/scheduler",
    "plugins/module_utils/report/grid.py": "plugins/module_utils/report/columns.py",
    "plugins/module_utils/spread/preconditions/window.py": "plugins/module_utils/spread/preconditions/outside_window.py",
    "plugins/module_utils/spread/restart/limits.py": "plugins/module_utils/spread/restart/run_limits.py",
    "plugins/module_utils/spread/eviction/replacement.py": "plugins/module_utils/spread/replicas.py",
    "plugins/module_utils/spread/preconditions/no_gain.py": "plugins/module_utils/spread/restart/no_gain.py",
    "plugins/module_utils/spread/preconditions/preferred_affinity.py": "plugins/module_utils/spread/advice/preferred_affinity.py",
    "plugins/module_utils/spread/prediction/surge_capacity.py": "plugins/module_utils/spread/preconditions/admission/surge_quota.py",
    "plugins/module_utils/model/selectors/budget_index.py": "plugins/module_utils/model/budgets/budget_index.py",
    "plugins/module_utils/spread/preconditions/budgets.py": "plugins/module_utils/spread/preconditions/workload_budgets.py",
    "plugins/module_utils/state/restart_cooldown.py": "plugins/module_utils/spread/preconditions/cooldown.py",
    "plugins/module_utils/spread/preconditions/deletion.py": "plugins/module_utils/spread/preconditions/workload_terminating.py",
    "plugins/module_utils/spread/preconditions/readability.py": "plugins/module_utils/spread/preconditions/unreadable.py",
    "plugins/module_utils/rescue/eviction_rules/safe_to_evict.py": "plugins/module_utils/rescue/eviction_rules/not_safe_to_evict.py",
    "plugins/module_utils/rescue/victims/eviction_filter.py": "plugins/module_utils/rescue/eviction_rules/eviction_filter.py",
}
"""Folders and files whose last part alone is a common word, and the present path."""

OLD_NAMES = {
    "_is_bound_to_others": "_depends_on_other_pods",
    "_nodes_with_room": "_nodes_with_capacity",
    "no_toleration_violation": "no_toleration_reason",
    "is_protected": "is_critical_or_system",
    "has_no_capacity_elsewhere": "is_surely_unreschedulable",
    "stays_closed": "always_rejects",
    "takes_capacity_back": "violation",
    "_has_no_steps_left": "_has_steps_left",
    "_cannot_improve": "_can_improve",
    "knows_too_little": "is_unreadable",
    "_knows_too_little": "_is_unreadable",
    "_blocking_task": "_queue_violation",
    "_blocking_queued_task": "_overdue_task_violation",
    "_more_than_planned": "PlanLimit.violation",
    "kept_by": "hold_method",
    "_placement": "_cluster_state",
    "_placement_for": "_cluster_state_for",
    "storage_builders": "objects",
    "rescue_fakes": "fakes",
    "fake_api": "fakes",
    "cluster_builder": "cluster",
    "builders": "objects",
    "AcrossNodes": "TopologyFilter",
    "Ahead": "NominatedPods",
    "AlikePods": "SignatureResults",
    "Alone": "NodeLocalResult",
    "AsRead": "SnapshotResults",
    "Attached": "AttachedVolumes",
    "Blockade": "Diagnosis",
    "BrokenAnswerError": "TruncatedResponseError",
    "Budgets": "PdbLedger",
    "pdb_ledger": "ledger",
    "BudgetsAtStake": "BudgetLocks",
    "ClassRoom": "StorageClassCapacity",
    "Clearing": "RescueExecutor",
    "CountedNodes": "SpreadDomains",
    "Demand": "PodDemand",
    "Elsewhere": "ReschedulingCheck",
    "Evictable": "EvictablePod",
    "EvictionRules": "EvictionFilter",
    "Evictions": "EvictionRequests",
    "Facts": "RescueContext",
    "Follower": "Reflector",
    "Found": "VictimSet",
    "FreeVolumes": "AvailableVolumes",
    "HoldRecords": "HoldStore",
    "HoldRule": "HoldPolicy",
    "Importance": "Preemptor",
    "Judge": "FilterRunner",
    "Judgement": "RescuePlan",
    "Leaving": "TerminatingPods",
    "Look": "Observation",
    "NOWHERE": "NO_DOMAIN_LOAD",
    "NO_ROOM": "NO_CAPACITY",
    "Nominations": "Nominator",
    "NotRecordedError": "HoldNotRecordedError",
    "ObjectStore": "Store",
    "Occupants": "Shortage",
    "Offer": "VolumeMatch",
    "Orders": "ShutdownSignal",
    "Placement": "ClusterState",
    "PodGroup": "AffinityGroup",
    "PodGroups": "AffinityTermIndex",
    "Prospect": "NodeCandidate",
    "Reaches": "FreeableCapacityCache",
    "RecordStore": "ConfigMapStore",
    "RescueAttempts": "AttemptStore",
    "RescueLease": "LeaderLease",
    "RescuedPods": "RescuedPodTracker",
    "Rescuer": "RescueController",
    "Resident": "NodePod",
    "Residents": "NodePods",
    "Restrictions": "VolumeRestrictionsFilter",
    "Returning": "ReturnCheck",
    "Room": "NodeCapacity",
    "STATIC_RULES": "STATIC_FILTERS",
    "STOCK": "DEFAULT_PROFILE",
    "STOCK_PROFILES": "DEFAULT_PROFILES",
    "SchedulerLife": "SchedulerHealth",
    "SeveralBudgetsError": "MultipleBudgetsError",
    "Sharer": "Interner",
    "SharingStore": "InterningStore",
    "Standing": "BudgetStatus",
    "StillAskedError": "EvictionPendingError",
    "Subject": "RequestTarget",
    "Teller": "EventRecorder",
    "Trial": "EvictionDryRun",
    "TurnedDown": "EvictionDenied",
    "UNCONTESTED": "FEASIBLE",
    "ClosedBudgetError": "EvictionDeferredError",
    "BudgetWait": "EvictionWait",
    "budget_wait": "eviction_wait",
    "_budget_wait": "_eviction_wait",
    "_wait_for_budgets": "_wait_for_evictions",
    "keep_hold": "set_begun",
    "node_bound": "evicted_last",
    "_node_bound": "_evicted_last",
    "is_node_bound": "is_evicted_last",
    "REASONS_NOT_JUDGED": "REASONS_NOT_CHECKED",
    "UnexpectedAnswerError": "ResponseDecodeError",
    "UntrustedError": "TLSError",
    "Vanished": "PodGone",
    "View": "ReconcileView",
    "VolumeIndex": "StorageIndex",
    "WatchCache": "ClusterInformer",
    "Watchdog": "Health",
    "Way": "MoveStrategy",
    "WireError": "DecodeError",
    "Witness": "RescueObserver",
    "_Aim": "_EvictionCandidate",
    "_Doubt": "_UnknownOf",
    "_ELSEWHERE": "_SELECTED_ELSEWHERE",
    "_ENOUGH": "_MATCHED",
    "_Given": "Given",
    "_Matching": "_InterPodAffinityFilter",
    "_NEVER": "eviction_rules",
    "_Notes": "_ResultObserver",
    "_Place": "_NamespaceScope",
    "_Rejected": "_RejectedEverywhere",
    "_Search": "_ClaimSearch",
    "_SnapshotPlacement": "_SnapshotState",
    "_Spread": "_ConstraintCounts",
    "_Spreads": "_PodTopologySpreadFilter",
    "_Tally": "_TopologyCounts",
    "_affinity_holds": "_affinity_is_met",
    "_apart_without": "_anti_affinity_without",
    "_break_off": "_abort",
    "_catch_up": "_update",
    "_closed_to_all": "_rejection_everywhere",
    "_count_changes": "_apply_changes",
    "_count_fewest": "_find_global_minimum",
    "_doubt_unreadable": "_add_unreadable",
    "_emptiest_node": "_least_loaded_node",
    "_feasibility_as_read": "_feasibility_from_snapshot",
    "_forget_verdicts": "_clear_results",
    "_goes_first": "_is_before",
    "_is_proved": "_has_own_taint",
    "_is_alike": "_has_size_and_mode",
    "_is_promised": "_is_claimed_by_nominated",
    "_is_temporary": "is_transient",
    "_judged_in": "_filtered_in",
    "_keeps_apart": "_may_repel",
    "_look_across": "_run_topology_filters",
    "_look_again": "_observe_again",
    "_look_into": "_run_node_local_filters",
    "_looked_at_s": "_observed_at_s",
    "_marked": "_annotated_hold",
    "_may_be_first": "_may_start_group",
    "_nothing_across": "_only_node_local",
    "_on_claims": "_has_volume_filters",
    "_on_empty": "_results_on_empty",
    "_on_volumes": "_volume_filters",
    "_past_early_denials": "_retry_early_denials",
    "_places_for": "_scopes_for",
    "_places_of": "_scopes_of",
    "_prepare_provision": "_provisioning_check",
    "_result_with": "_result_beside",
    "_says_nothing": "_has_no_terms",
    "_self_affine": "_selects_itself",
    "_share_pod": "_intern_parts_of_pod",
    "_share_struct": "_intern_struct",
    "_share_with": "_intern_like",
    "_take_bound": "_add_bound_claim",
    "_released_marks": "_released_annotations",
    "_verdict_beside": "_result_with_nominated_pods",
    "_verdict_with": "_result_beside",
    "_wanted_keys": "_required_keys",
    "_was_turned_down": "EvictionDenied",
    "_without_mark": "_hold_of_taint",
    "_without_near": "_without_affinity_of",
    "across_nodes": "interface",
    "ask_predicates": "run_filters",
    "assume_leaving": "assume_terminating",
    "badness": "skew_cost",
    "called_off": "cancel",
    "check_amounts": "check_quantities",
    "closed_alike": "static_rejections",
    "collector_paused": "gc_paused",
    "counted_nodes": "spread_domains",
    "device_doubts": "node_resources_fit",
    "draws_on": "budget_of",
    "drop_old_assumptions": "expire_assumptions",
    "eviction_attempt": "eviction_steps",
    "eviction_plan": "decision",
    "forget_all_but": "retain_only",
    "fullness_of": "load_of",
    "give_back": "release",
    "harm_of_rollout": "downtime_violation",
    "has_rivals": "has_competing_volumes",
    "has_room_for": "has_capacity_for",
    "hold_rule": "hold_policy",
    "hold_write": "holds",
    "holds_for": "is_still_valid_for",
    "homeless": "unreschedulable",
    "immunity_of": "eviction_violation",
    "ignored_marks": "unproven_hold_annotations",
    "in_haste": "with_timeouts",
    "info_as_read": "snapshot_info",
    "is_foreign": "is_foreign_taint",
    "is_translated": "uses_migrated_topology",
    "judge_on": "replan_on_node",
    "keep_deleted": "retain_deleted",
    "bulk": "etcd_bulk_load",
    "identities": "service_account_kubeconfigs",
    "importer": "galaxy_importer",
    "kwok_request": "kwok_config",
    "lacks_rights": "is_permission_error",
    "let_go": "abandon_holds",
    "pod_changed_message": "pod_changed_violation",
    "plan_limit_violation": "PlanLimit.violation",
    "let_go_of": "abandoned",
    "let_go_of_nodes": "release_own_holds",
    "list_to_follow": "list_for_watch",
    "made_from": "claim_template",
    "mark_of": "hold_annotation",
    "may_go_on": "may_continue",
    "may_pass": "is_transient",
    "may_take": "can_acquire",
    "may_try": "attempt_violation",
    "nomination_renewal": "nomination",
    "not_admitted": "admission_violation",
    "not_there": "missing_namespaces_message",
    "note_list_begins": "note_list_start",
    "object_store": "store",
    "older_pods": "outdated_pods",
    "on_volumes": "volume_filters",
    "open_alone": "passing_node_local_filters",
    "open_cases": "open_tasks",
    "outweighed_preference": "preferred_affinity_reason",
    "counteracting_preference": "preferred_affinity_reason",
    "preferred_affinity_violation": "preferred_affinity_reason",
    "paging": "pagination",
    "placeless": "_drop_non_placement_volumes",
    "pod_doubts": "pod",
    "prepare_added": "pre_filter_added",
    "prepare_names": "pre_filter_names",
    "prepare_offer": "volume_matcher",
    "prospect": "node_candidate",
    "read_page": "decode_page",
    "rejection_without": "rejection_without_pods",
    "remembered_permission": "restart_permission",
    "replacement_wait": "wait",
    "required_affinity": "required_node_affinity",
    "residents": "node_pod",
    "resources_to_follow": "resources_to_cache",
    "restart_memory": "outcome_store",
    "restart_plan": "decision",
    "restart_request": "options",
    "restart_write": "rollout",
    "returned_to": "is_rolled_back",
    "rollout_status": "rollout",
    "scheduler_life": "scheduler_health",
    "seen_as": "distribution_over",
    "static_rules_of": "static_signature",
    "eligibility": "static_filters",
    "SslError": "HandshakeError",
    "service_connection": "open_transport",
    "connect_with": "open_transport_with",
    "YamlError": "ConnectionSettingsError",
    "passes_by": "bypasses_proxy",
    "to_look_at": "needs_observation",
    "turned_down": "denied",
    "unproved": "unproven",
    "unless_room_was_taken": "defer_if_capacity_reserved",
    "verdict_on_empty": "result_on_empty_node",
    "verdict_without": "result_without_pods",
    "volume_doubts": "volumes",
    "volume_index": "StorageIndex",
    "watch_cache": "informer",
    "watchdog": "health",
    "way_out": "remedy",
    "without_attached": "without_attached_volumes",
    "workload_wait": "wait",
    "wrong_variables": "validate_argument_spec",
    "run_spread_check": "run_check",
    "report_to_result": "check_result",
    "restart_workloads": "run_restart",
    "unreliable_status": "budget_status_violation",
    "missing_replicas": "missing_replicas_text",
    "_closed_budget": "_budget_violation",
    "_no_benefit": "_benefit_violation",
    "_pending_replacement": "_pending_replacement_violation",
    "_skip_reason": "_skip_violation",
    "_obstacle": "_prediction_violation",
    "_leaves_healthy_out": "_lists_all_healthy",
    "_not_done": "_is_done",
    "no_surge_reason": "surge_quota_violation",
    "surge_violation": "surge_quota_violation",
    "why_not_ready": "unready_message",
    "why_unfinished": "unfinished_cause",
    "_why_not_created": "_creation_failure",
    "created_again": "recreated_progress",
    "preferred_home": "preference",
    "remember_eviction": "record_eviction",
    "remember_update_revision": "record_update_revision",
    "_begin_on_fresh_judgement": "_begin_on_current_report",
    "_with_doubts": "_with_unknown",
    "_obstacles": "_blockers",
    "restart_permission_after": "cooldown_permission",
    "_brought_back": "is_rolled_back_to",
    "began_current_revision": "is_of_current_revision",
    "made_current_revision": "is_pending_for_current_revision",
    "_changed_nodes": "_nodes_with_other_pods",
    "window_violation": "outside_window_violation",
    "counteracting_preference_violation": "preferred_affinity_reason",
    "namespace_deletion_violation": "namespace_terminating_violation",
    "deletion_violation": "workload_terminating_violation",
    "readability_violation": "unreadable_violation",
    "safe_to_evict_violation": "not_safe_to_evict_violation",
    "ReplacementCheck": "ReturnCheck",
    "hindrance": "problem",
    "hindered": "blocked",
    "is_hindered": "is_blocked",
    "_hindered_at_s": "_blocked_at_s",
    "useless": "no_benefit",
    "_resident": "_node_pod",
    "option_error": "option_values",
    "CONFLICT_RETRIES": "MAX_TRIES",
}
"""Names of classes, functions, attributes and files, and the present name."""

NAMES_OF_EXTENDER = {"Judgement", "Demand", "Budgets"}
"""Names of the public interface of agents. Their old meaning belonged to the rescue, which the extender does not import."""

OLD_WORDS = {
    "rebalance_label_selector": "rebalance_label_selectors",
    "rescue_force": "rescue_allow_zero_grace",
    "rescue_label_selector": "rescue_label_selectors",
    "rescue_scheduled_timeout": "rescue_wait_timeout",
    "ForgedHold": "UnprovenHoldAnnotation",
    "HinderedRescuer": "UnreadyRescuer",
    "kube_scheduling_rescue_hindered": "kube_scheduling_rescue_unready",
    "kube_scheduling_rescue_ignored_marks": "kube_scheduling_rescue_unproven_hold_annotations",
    "troubles_total": "errors_total",
    "deed": "action",
    "flavour": "variant",
    "Flavour": "Variant",
    "flavour_named": "variant_named",
    "flavours": "variants",
    "FLAVOURS": "VARIANTS",
    "makes_room": "evictions_help",
    "not_judged_yet": "not_reported_yet",
    "not_kept": "hold_lost, not_nominated",
    "other_rescue": "queued",
    "other_rescuer": "not_leader",
    "others_ending": "others_terminating",
    "room_becoming_free": "capacity_becoming_free",
    "room_taken": "capacity_taken",
    "same_owner": "same_controller",
    "tried_in_vain": "tried_without_effect",
    "__rebalance_looked": "__rebalance_was_read",
    "kube_scheduling_rescue_troubles_total": "kube_scheduling_rescue_errors_total",
}
"""Names of options, variables, reasons, metrics and variants of the lab that users saw, and the present name."""

FILES = [file for file in repository_files() if file.parts[0] not in ("changelogs", "LICENSES") and file.name != Path(__file__).name]
SOURCES = [file for file in FILES if file.suffix == ".py"]
TEXTS = [file for file in FILES if file.suffix in (".py", ".md", ".yml", ".yaml", ".j2", ".toml") or file.name == "Makefile"]
WORD = re.compile(r"\w+")


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every identifier of a Python file."""
    for node in ast.walk(ast.parse(source)):
        for field in ("name", "id", "attr", "arg", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, part) for part in (node.module or "").split("."))


def old_names_in(source: str, allowed: Collection[str] = ()) -> list[str]:
    return [f"line {line}: {name} is now {OLD_NAMES[name]}" for line, name in names_in(source) if name in OLD_NAMES and name not in allowed]


def test_no_source_has_an_old_name() -> None:
    found = [f"{file}: {old}" for file in SOURCES for old in old_names_in((ROOT / file).read_text(encoding="utf-8"), of_extender(file))]
    assert found == []


def of_extender(file: Path) -> set[str]:
    """The old names that the file may use."""
    return NAMES_OF_EXTENDER if "extender" in file.parts else set()


def test_no_text_has_an_old_name_that_users_saw() -> None:
    found = []
    for file in TEXTS:
        words = set(WORD.findall((ROOT / file).read_text(encoding="utf-8")))
        found += [f"{file}: {word} is now {OLD_WORDS[word]}" for word in sorted(words & set(OLD_WORDS))]
    assert found == []


def test_no_document_has_the_old_name_of_a_class_or_function() -> None:
    distinct = {name for name in OLD_NAMES if "_" in name or re.search(r"[a-z][A-Z]", name)}
    found = []
    for file in FILES:
        if file.suffix == ".md":
            words = set(WORD.findall((ROOT / file).read_text(encoding="utf-8")))
            found += [f"{file}: {word} is now {OLD_NAMES[word]}" for word in sorted(words & distinct)]
    assert found == []


def test_nothing_has_an_old_path() -> None:
    assert [f"{old} is now {new}" for old, new in OLD_PATHS.items() if (ROOT / old).exists()] == []
    assert [new for new in OLD_PATHS.values() if not (ROOT / new).exists()] == []


def test_no_file_has_an_old_name() -> None:
    assert [str(file) for file in SOURCES if file.stem in OLD_NAMES] == []


def test_old_names_are_found_wherever_a_source_uses_them() -> None:
    source = "from .watch_cache import X\nclass Teller: pass\ndef f(homeless): return f.give_back(in_haste=1)\n"
    assert len(old_names_in(source)) == 5
    assert old_names_in('"""The WatchCache of kube-apiserver is another thing."""') == []
