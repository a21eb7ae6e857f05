# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Any values in FILE give settings or a SettingsError, and no error shows a value that looks like a login."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import fields_of
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import SettingsError
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import BUILT_IN, load_agent
from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import OPTIONS, ServerSettings, read_inputs, read_settings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    KubernetesSettings,
    NodeExporterSettings,
    PrometheusSettings,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAIN = [
    *(None, 0, -1, 5, 1.5, float("nan"), float("inf"), True, "", "a", "30s", "10G", "(", "http://u:hunter2@h", "http://h:9090", ":8080"),
    *(10**30, "9" * 500, datetime.date(2020, 1, 1), b"x", {"x"}, {1: 2}, [None], ["a"], [{"nodes": "a", "device": "b", "speed": "1G"}]),
    *({"username": "u", "password_file": "p"}, {"cert_file": "c"}, {"cert_file": "c", "key_file": "k"}),
]
VALUES = st.recursive(
    st.sampled_from(PLAIN), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tls", "name", "args", 1]), inner)
)


def some(names: t.Iterable[str], values: st.SearchStrategy[t.Any] = VALUES) -> st.SearchStrategy[dict[str, t.Any]]:
    """Some of the settings with any values."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))


def names_of(kind: t.Any) -> list[str]:
    return [one.encode_name for one in fields_of(kind)]


def entry(name: str) -> st.SearchStrategy[dict[str, t.Any]]:
    args = some(names_of(load_agent(name).args_type))
    return st.fixed_dictionaries({"name": st.just(name)}, optional={"args": args | VALUES, "weight": VALUES, "filter": VALUES})


AGENTS = st.sampled_from(list(BUILT_IN)).flatmap(entry) | some(["name", "weight"])
SOURCES = {
    "prometheus": some(names_of(PrometheusSettings)),
    "kubernetes": some(names_of(KubernetesSettings)),
    "node_exporter": some(names_of(NodeExporterSettings)),
}
FILES = st.fixed_dictionaries(
    {
        "profiles": st.dictionaries(
            st.sampled_from(["web", "*", "", 3]), st.fixed_dictionaries({"agents": st.lists(AGENTS, max_size=3)}) | VALUES, max_size=2
        )
    },
    optional={
        **{option.name: VALUES for option in OPTIONS},
        "server": some(names_of(ServerSettings)) | VALUES,
        "sources": st.fixed_dictionaries({}, optional=SOURCES) | VALUES,
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=FILES)
def test_any_values_give_settings_or_an_error_without_a_secret(tmp_path: Path, content: t.Any) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(yaml.safe_dump(content))
    try:
        read_settings(read_inputs([f"--config={file}"], {}))
    except SettingsError as error:
        assert "hunter2" not in str(error)
