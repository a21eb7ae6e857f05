# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings come from FILE, environment and flags, and each wrong one is named together with where it comes from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import MINIMA, TIMES, RescueOptions
from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address
from ansible_collections.onprem.kube_scheduling.services.common.settings import Option
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import SettingsError
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main
from ansible_collections.onprem.kube_scheduling.services.rescuer.settings import OPTIONS, Settings, read_settings


def read(*flags: str, file: Path | None = None, **environment: str) -> Settings:
    return read_settings([*flags, *(["--config", str(file)] if file else [])], environment)


def config(folder: Path, text: str) -> Path:
    file = folder / "rescuer.yml"
    file.write_text(text)
    return file


def test_without_anything_the_defaults_are_those_of_the_original_and_the_module() -> None:
    settings = read()
    assert settings == Settings(RescueOptions(), listen_address=Address("127.0.0.1", 9235))
    assert (settings.housekeeping_interval, settings.initial_delay, settings.rescue.wait_timeout_s) == (10, 0, 600)


def test_every_option_of_a_rescue_can_be_set_and_every_setting_is_one() -> None:
    own = {field.name for field in dataclasses.fields(Settings)} - {"rescue"}
    times = {f"{name}_s": name for name in TIMES}
    assert {option.name for option in OPTIONS} == own | {times.get(field.name, field.name) for field in dataclasses.fields(RescueOptions)}


def test_the_flags_of_the_original() -> None:
    flags = ("--housekeeping-interval=30s", "--initial-delay", "2m", "--system-namespace", "kube-system,monitoring")
    settings = read(*flags, "--pod-scheduled-timeout=1h", "--grace-period", "30", "--listen-address=:9235")
    assert (settings.housekeeping_interval, settings.initial_delay) == (30, 120)
    assert settings.rescue == RescueOptions(namespaces=("kube-system", "monitoring"), wait_timeout_s=3600, grace_period_s=30)
    assert settings.listen_address == Address("", 9235)


def test_flags_override_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = config(tmp_path, "grace_period: 1\nsettle_time: 1\nmax_attempts: 1\n")
    settings = read("--grace-period=3", file=file, RESCUER_GRACE_PERIOD="2", RESCUER_SETTLE_TIME="2s")
    assert (settings.rescue.grace_period_s, settings.rescue.settle_time_s, settings.rescue.max_attempts) == (3, 2, 1)


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    assert read(RESCUER_CONFIG=str(config(tmp_path, "dry_run: true\n"))).dry_run


def test_a_file_with_every_kind_of_value(tmp_path: Path) -> None:
    text = "namespaces: [kube-system, infra]\nallow_bare_pods: true\nwait_timeout: 2m30s\nhold: none\nlisten_address: ''\n"
    settings = read(file=config(tmp_path, text))
    assert settings.rescue == RescueOptions(namespaces=("kube-system", "infra"), allow_bare_pods=True, wait_timeout_s=150, hold="none")
    assert settings.listen_address is None


@pytest.mark.parametrize(
    ("flags", "environment", "wanted"),
    [
        (["--dry-run"], {}, True),
        (["--dry-run=false"], {}, False),
        ([], {"RESCUER_DRY_RUN": "true"}, True),
        (["--dry-run=no"], {"RESCUER_DRY_RUN": "true"}, False),
        ([], {"RESCUER_DRY_RUN": ""}, False),
    ],
)
def test_switches(flags: list[str], environment: dict[str, str], wanted: bool) -> None:
    assert read(*flags, **environment).dry_run is wanted


def test_an_empty_address_in_the_environment_counts() -> None:
    assert read(RESCUER_LISTEN_ADDRESS="").listen_address is None


def test_variables_that_the_kubelet_sets_for_services_are_none_of_ours() -> None:
    links = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_METRICS", "PORT", "PORT_9235_TCP_ADDR", "METRICS_SERVICE_HOST", "METRICS_PORT")
    assert read(**{f"RESCUER_{name}": "10.0.0.1" for name in links}) == read()


@pytest.mark.parametrize(
    ("flags", "environment", "text", "complaint"),
    [
        (["--grace-perod=1"], {}, "", "--grace-perod is not a flag; the nearest is --grace-period"),
        (["--pod-schedule-timeout=1m"], {}, "", "the nearest is --pod-scheduled-timeout"),
        (["--grace-period"], {}, "", "--grace-period: expected one argument"),
        (["extra"], {}, "", "extra is not a flag"),
        ([], {"RESCUER_GRACE_PEROID": "1"}, "", "variable RESCUER_GRACE_PEROID is not a setting; the nearest is RESCUER_GRACE_PERIOD"),
        ([], {}, "grace_perod: 1", "grace_perod is not a setting; the nearest is grace_period"),
        ([], {}, "- grace_period", "rescuer.yml is not a mapping: "),
        ([], {}, "grace_period: [", "rescuer.yml cannot be read: it is not a YAML document: line 2, column 1"),
        ([], {}, "hold: 2026-13-45", "rescuer.yml cannot be read: it has a value that"),
        (
            [],
            {},
            "hold: auto\nallow_zero_grace: true\nhold: none\n",
            "rescuer.yml, line 3, hold occurs in line 1 and in line 3: keep one of them",
        ),
        ([], {}, "{hold: auto, hold: none}", "rescuer.yml, line 1, hold occurs in line 1 and in line 1: keep one of them"),
        (
            [],
            {},
            "namespaces:\n- {a: 1,\n   b: 2,\n   'a': 3}",
            "rescuer.yml, line 4, namespaces[0].a occurs in line 2 and in line 4: keep one of them",
        ),
        (
            [],
            {},
            "hold: &h {c: {x: 1}}\nallow_zero_grace: [*h, {c: 1,\n c: 2}]",
            "rescuer.yml, line 3, allow_zero_grace[1].c occurs in line 2 and in line 3: keep one of them",
        ),
        (["--hold=none"], {}, "hold: auto\nhold: none\n", "rescuer.yml, line 2, hold occurs in line 1 and in line 2"),
        ([], {}, "config: x", "rescuer.yml, line 1, config is not a setting"),
        (["--grace-period=soon"], {}, "", "flag --grace-period is 'soon': it must be a time from 0 to"),
        ([], {"RESCUER_GRACE_PERIOD": "1d"}, "", "variable RESCUER_GRACE_PERIOD is '1d': it must be a time"),
        ([], {}, "grace_period: true", "rescuer.yml, line 1, grace_period is True: it must be a time"),
        ([], {}, "max_victims: 1.5", "rescuer.yml, line 1, max_victims is 1.5: it must be a whole number"),
        ([], {}, "namespaces: 5", "rescuer.yml, line 1, namespaces is 5: it must be a list of names"),
        ([], {}, "hold_taint_key: 5", "rescuer.yml, line 1, hold_taint_key is 5: it must be a text"),
        ([], {}, "hold: nonne", "rescuer.yml, line 1, hold is 'nonne': it must be one of auto, taint, none"),
        (["--hold=none", "--hold-taint-key=a b"], {}, "", "flag --hold-taint-key is 'a b'"),
        (["--grace-period=0"], {}, "", "flag --grace-period is 0"),
        (["--system-namespace="], {}, "", "flag --system-namespace is empty"),
        (["--housekeeping-interval=0"], {}, "", "flag --housekeeping-interval is '0'"),
        ([], {}, "housekeeping_interval: -5", "housekeeping_interval is -5: it must be a time from 1 to 31536000 seconds"),
        (["--stop-timeout=-5"], {}, "", "flag --stop-timeout is '-5'"),
        ([], {"RESCUER_INITIAL_DELAY": "-1"}, "", "variable RESCUER_INITIAL_DELAY is '-1'"),
        ([], {}, "housekeeping_interval: 99999999999999999999", "it must be a time from 1 to 31536000 seconds"),
        (["--listen-address=9235"], {}, "", "flag --listen-address is '9235': write it as HOST:PORT"),
        ([], {"RESCUER_LOG_LEVEL": "loud"}, "", "variable RESCUER_LOG_LEVEL is 'loud': it must be one of debug, info, warning, error"),
        (["--dry-run=perhaps"], {}, "", "flag --dry-run is 'perhaps': it must be true or false"),
        (
            [],
            {},
            "honor_critical_annotation: true",
            "rescuer.yml, line 1, honor_critical_annotation is True: it must be one of kube-system, all, none",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_origin(
    tmp_path: Path, flags: list[str], environment: dict[str, str], text: str, complaint: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read(*flags, file=config(tmp_path, text) if text else None, **environment)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "grace_period: {password: hunter2}",
        "max_victims: [hunter2]",
        "namespaces: {password: hunter2}",
        "dry_run: 'http://admin:hunter2@host'",
        "hold: 'http://admin:hunter2@host'",
        "listen_address: 'http://admin:hunter2@host'",
        "kubeconfig: {password: hunter2}",
        "namespaces: ['http://admin:hunter2@host']",
        "hold_taint_key: 'http://admin:hunter2@host'",
        "'http://admin:hunter2@host': 1",
    ],
)
def test_an_error_shows_no_value_that_may_contain_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(file=config(tmp_path, text))
    assert "hunter2" not in str(caught.value)


BOUNDED = [option for option in OPTIONS if option.name in MINIMA]


@pytest.mark.parametrize("option", BOUNDED, ids=lambda option: option.name)
def test_a_value_that_is_too_small_is_named_with_its_origin(option: Option) -> None:
    with pytest.raises(SettingsError, match=f"flag {option.flag} is "):
        read(f"{option.flag}={MINIMA[option.name] - 1}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"file .*nowhere.yml cannot be read: No such file"):
        read(file=tmp_path / "nowhere.yml")


def test_one_run_names_every_mistake(tmp_path: Path) -> None:
    """Unknown names, values of a wrong form, and values that the rescue or the program refuses."""
    text = "grace_perod: 1\nmax_victims: many\nhold: rope\nwait_timeout: 0\nnamespaces: [kube_system]\nstop_timeout: 2y\n"
    with pytest.raises(SettingsError) as raised:
        read(file=config(tmp_path, text), RESCUER_HOUSEKEEPING_INTERVAL="0", RESCUER_GRACE="1", RESCUER_LISTEN_ADDRESS="nowhere")
    found = [str(error).replace(str(tmp_path), "") for error in raised.value.errors]
    expected = [
        "variable RESCUER_GRACE is not a setting",
        "file /rescuer.yml, line 1, grace_perod is not a setting; the nearest is grace_period",
        "file /rescuer.yml, line 2, max_victims is 'many': it must be a whole number",
        "file /rescuer.yml, line 3, hold is 'rope': it must be one of auto, taint, none",
        "file /rescuer.yml, line 6, stop_timeout is '2y'",
        "file /rescuer.yml, line 4, wait_timeout is 0: it must be at least 1",
        "file /rescuer.yml, line 5, namespaces contains 'kube_system'",
        "variable RESCUER_HOUSEKEEPING_INTERVAL is '0': it must be a time from 1 to",
        "variable RESCUER_LISTEN_ADDRESS is 'nowhere'",
    ]
    assert len(found) == len(expected), found
    for wanted in expected:
        assert any(text.startswith(wanted) for text in found), (wanted, found)


@pytest.mark.parametrize(("text", "code"), [("stop_timeout: 45s\n", 0), ("stop_timeout: 45y\nhold: rope\n", 2)])
def test_check_config_ends_with_0_or_2_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int) -> None:
    assert main(["--check-config", "--config", str(config(tmp_path, text)), "--kubeconfig=/nowhere"], {}) == code
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == code and shown.out == ("the settings can be used\n" if code == 0 else "")
