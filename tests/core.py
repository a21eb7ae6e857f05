# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The core of the integration tests, which `make test` runs: for each module, playbook, role and program its main path and its most
dangerous failure, against a real control plane. `make ci-more` runs the others, without those of LATER.

A key is a path in the repository. A value is a file or a test in tests/integration.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tools.paths import ROOT

INTEGRATION = ROOT / "tests" / "integration"

CORE: dict[str, tuple[str, ...]] = {
    "plugins/modules/k8s_spread_check.py": (
        *(
            "modules/test_start_of_modules.py",
            "modules/test_check_option.py::test_rollout_of_a_check_takes_its_restartable_workloads_and_its_options",
            "modules/test_check_option.py::test_namespaces_are_selected_as_the_api_server_selects_them",
            "modules/test_bad_input.py",
            "modules/test_hostile_objects.py",
        ),
        *("modules/test_scheduler_config.py", "oracle/test_filters.py", "oracle/scores/test_scores.py"),
    ),
    "plugins/modules/k8s_rollout_restart.py": (
        *("modules/test_rollout_restart.py", "modules/test_requests.py"),
        "modules/test_spread_constraint.py::test_workloads_that_scoring_keeps_in_one_zone_are_spread_now_and_in_later_rollouts",
        "modules/test_spread_constraint.py::test_workloads_of_argo_cd_flux_and_helm_are_refused_with_a_patch_that_works_and_forced",
        "modules/test_interruptions.py::test_an_edit_in_between_is_kept_and_the_restart_is_skipped",
        "modules/test_interruptions.py::test_a_webhook_that_refuses_fails_the_task_with_its_words",
        "modules/test_evict_surplus.py::test_a_skewed_deployment_is_evened_out_one_pod_at_a_time",
        "modules/test_evict_surplus.py::test_auto_restarts_what_is_collapsed_and_evicts_from_what_is_skewed",
        "modules/test_evict_surplus.py::test_a_budget_that_allows_no_eviction_is_refused_before_anything_is_written",
        "modules/test_evict_surplus.py::test_killed_after_an_eviction_the_next_run_continues",
        "modules/test_killed.py::test_a_killed_restart_is_made_once",
    ),
    "plugins/modules/k8s_critical_rescue.py": (
        "rescue/test_rescue.py::test_the_original_s_own_example",
        "rescue/test_rescue.py::test_a_plan_changes_nothing_and_is_what_then_happens",
        "rescue/test_rescue.py::test_a_budget_is_never_exceeded",
        "rescue/test_rescue.py::test_a_pod_with_two_budgets_is_never_evicted",
        "rescue/test_rescue.py::test_two_critical_pods_for_one_gap",
        "rescue/test_rescue.py::test_capacity_that_becomes_free_in_parts_needs_a_hold",
        "rescue/test_rescue.py::test_a_pod_without_the_toleration",
        "rescue/test_rescue.py::test_a_foreign_taint_stays_and_serves",
        "rescue/test_rescue.py::test_other_taints_survive_a_hold",
        "rescue/test_rescue.py::test_protected_pods_stay_and_the_reason_says_which_option_would_help",
        "rescue/test_rescue.py::test_a_victim_that_never_ends_makes_it_try_another_node",
        "rescue/test_rescue.py::test_max_victims",
        "rescue/test_permissions.py",
        "rescue/test_forged_annotations.py::test_forged_annotation_neither_closes_nor_chooses_its_node",
        "undecodable/test_hostile_values.py",
    ),
    "plugins/modules/k8s_cluster_identity.py": ("modules/test_cluster_identity.py",),
    "plugins/modules/k8s_cronjob_run.py": ("roles/test_waits.py::test_a_job_that_fails_or_does_not_end_is_named",),
    "plugins/modules/k8s_maintenance_wait.py": (
        "playbooks/test_after_maintenance.py::test_nodes_that_are_cordoned_or_not_ready_are_named_and_nothing_is_rebalanced",
    ),
    "plugins/modules/k8s_apply_set.py": ("modules/test_apply_set.py",),
    "plugins/modules/scheduler_cluster.py": ("modules/test_scheduler_modules.py",),
    "plugins/modules/scheduler_probe.py": ("modules/test_scheduler_modules.py",),
    "plugins/modules/scheduler_profile.py": (
        "scheduler_config/test_config_map.py::test_other_keys_and_comments_are_kept",
        "scheduler_config/test_config_map.py::test_a_change_of_another_client_is_not_lost",
        "scheduler_config/test_file.py::test_a_profile_is_added_changed_and_removed",
        "scheduler_config/test_file.py::test_a_file_that_the_program_refuses_is_not_written",
    ),
    "plugins/modules/node_exporter_host.py": (
        "roles/test_node_exporter_prometheus.py::test_a_node_exporter_of_another_tool_is_accepted_and_another_program_is_not",
    ),
    "plugins/modules/kubeadm_scheduler_host.py": ("roles/test_kubeadm_scheduler_host.py",),
    "plugins/modules/scheduler_units_host.py": (
        "roles/test_scheduler_on_host.py::test_all_reasons_why_hosts_cannot_be_used_are_in_one_message_and_nothing_is_changed",
    ),
    "plugins/modules/node_exporter_prometheus.py": (
        "roles/test_node_exporter_prometheus.py::test_files_are_planned_written_repeated_kept_and_removed",
    ),
    "plugins/modules/static_pod_host.py": (
        "rescuer/test_role_static_pod.py::test_host_without_kubeadm_is_named_and_no_manifest_is_written",
    ),
    "playbooks/rebalance.yml": ("playbooks/test_rebalance.py::test_a_cluster_is_planned_then_spread",),
    "playbooks/rescue.yml": ("playbooks/test_rescue.py::test_a_rescue_is_planned_and_made",),
    "playbooks/after_maintenance.yml": (
        "playbooks/test_after_maintenance.py::test_the_rebalance_begins_when_the_node_is_uncordoned_and_the_replicas_are_available",
    ),
    "playbooks/spread_verify.yml": ("playbooks/test_spread_verify.py",),
    "playbooks/site.yml": (
        "playbooks/test_cluster_build.py",
        "playbooks/test_site_checks.py::test_all_failed_checks_are_in_one_list_and_nothing_is_changed",
    ),
    "playbooks/scheduler.yml": ("playbooks/test_second_scheduler.py",),
    "playbooks/verify.yml": ("playbooks/test_cluster_build.py",),
    "playbooks/uninstall.yml": ("playbooks/test_cluster_build.py",),
    "playbooks/awx.yml": (
        "awx/test_rendered.py::test_the_file_is_readable_only_by_its_owner_because_it_has_credentials",
        "awx/test_rendered.py::test_a_bearer_token_needs_no_credential_type_which_only_an_administrator_may_create",
        "awx/test_rendered.py::test_ansible_reads_the_variables_of_the_roles_and_keeps_the_templates_of_awx",
        # The tests of two runs: one with all variables, and one with wrong ones.
        *(
            f"awx/test_setup.py::test_{name}"
            for name in (
                "a_run_creates_what_the_variables_name_and_shows_no_secret",
                "each_job_template_has_its_playbook_survey_and_limits",
                "templates_for_nodes_have_the_machine_credential_and_the_others_have_not",
                "each_question_has_the_default_and_the_choices_of_its_variable_and_needs_no_answer",
                "each_list_of_a_survey_is_read_by_the_playbook_of_its_template_and_no_other_one",
                "the_workflow_waits_for_an_approval_and_always_verifies",
                "the_schedule_is_in_the_window_and_its_template_needs_no_answer",
                "hosts_have_their_variables_and_groups",
                "wrong_variables_are_refused_before_the_first_request",
                "each_wrong_host_and_group_is_named_together_with_the_other_mistakes",
                "hosts_and_groups_that_are_wrong_as_a_whole_do_not_hide_other_mistakes",
                "a_name_of_a_preset_that_yaml_does_not_read_as_text_is_refused",
            )
        ),
    ),
    "plugins/modules/check_variables.py": ("roles/test_spread_cronjob.py::test_all_wrong_variables_and_settings_are_named_in_one_message",),
    "plugins/modules/containerd_image.py": ("playbooks/test_new_node.py",),
    "plugins/modules/service_image_build.py": ("playbooks/test_new_node.py",),
    "plugins/modules/awx_objects.py": ("awx/test_setup.py::test_a_wrong_token_ends_the_run_with_the_first_object",),
    "plugins/modules/site_summary.py": ("playbooks/test_cluster_build.py",),
    "roles/spread_cronjob": ("playbooks/test_cluster_build.py",),
    "roles/critical_rescuer": ("playbooks/test_cluster_build.py",),
    "roles/extended_scheduler": ("playbooks/test_second_scheduler.py", "roles/test_scheduler_presets.py"),
    "roles/node_exporter": (
        "roles/test_node_exporter_prometheus.py::test_a_node_exporter_of_another_tool_is_accepted_and_another_program_is_not",
    ),
    "roles/service_image": ("playbooks/test_uninstall_nodes.py",),
    "services/extender": (
        *("extender/test_direct_scrape.py", "extender/test_tls.py"),
        "extender/test_preemption.py::test_only_the_unprotected_pod_is_preempted",
        "extender/test_preemption.py::test_a_budget_that_allows_a_disruption_is_used",
        "extender/test_preemption.py::test_an_extender_that_is_down",
    ),
    "services/kubectl_spread": (
        "kubectl/test_kubectl_spread.py::test_a_collapsed_workload_is_found_and_nothing_is_changed",
        "kubectl/test_kubectl_spread.py::test_json_and_yaml_are_the_result_of_the_module",
        "kubectl/test_kubectl_spread.py::test_errors_have_their_exit_codes",
    ),
    "services/rebalancer": (
        "rebalancer/test_pass.py::test_a_pass_spreads_a_piled_up_deployment",
        "rebalancer/test_pass.py::test_a_second_run_names_the_holder_and_two_runs_keep_the_limit",
        "rebalancer/test_pass.py::test_a_dry_run_needs_no_permission_to_write_and_changes_nothing",
        "rebalancer/test_pass.py::test_a_failed_restart_is_1_and_is_counted",
        "rebalancer/test_interrupted.py::test_a_lost_lease_stops_further_moves",
    ),
    "services/rescuer": (
        "rescuer/test_rescuer.py::test_a_pod_is_rescued_and_everything_is_counted",
        "rescuer/test_rescuer.py::test_a_stop_finishes_what_is_under_way",
        "rescuer/test_broken.py",
    ),
}

LATER = {"plays": ("awx", "playbooks", "roles"), "rescues": ("faults", "rescue", "rescuer", "state")}
"""The folders whose other tests CI runs only for a change of what they test (tools/changed_parts.py), by their marker.

They take most of the time of the integration tests: a play takes from 5 to 100 processor seconds, and rescues wait for evicted pods.
"""


def shipped() -> set[str]:
    """Return the paths of all modules, playbooks, roles and programs."""
    files = [*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("playbooks/*.yml")]
    programs = [file.parent for file in ROOT.glob("services/*/cli.py")]
    roles = [folder for folder in ROOT.glob("roles/*") if folder.is_dir()]
    return {str(path.relative_to(ROOT)) for path in (*files, *programs, *roles)}


def mark(items: Sequence[pytest.Item]) -> None:
    """Give the marker `core` to the tests of the table, and the markers of LATER to others in its folders."""
    markers = {folder: marker for marker, folders in LATER.items() for folder in folders}
    for item in items:
        folder = item.nodeid.removeprefix("tests/integration/").partition("/")[0]
        if in_core(item.nodeid):
            item.add_marker("core")
        elif folder in markers:
            item.add_marker(markers[folder])


def in_core(nodeid: str) -> bool:
    """Return True if the table has the test, or its file. Node ids begin at the root of the repository."""
    name = nodeid.partition("[")[0].removeprefix("tests/integration/")
    return name in TESTS or name.partition("::")[0] in TESTS


TESTS = frozenset(test for tests in CORE.values() for test in tests)
