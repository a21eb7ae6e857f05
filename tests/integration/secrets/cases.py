# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks that are given secrets and fail, or succeed, in many ways."""

from __future__ import annotations

import base64
import copy
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import Cluster

Json = dict[str, Any]

CHECK = "onprem.kube_scheduling.k8s_spread_check"
RESTART = "onprem.kube_scheduling.k8s_rollout_restart"
RESCUE = "onprem.kube_scheduling.k8s_critical_rescue"
PROFILE = "onprem.kube_scheduling.scheduler_profile"
NOBODY = "https://127.0.0.1:1"

SECRET = "geheim"
"""Is in every secret that a case makes up."""


@dataclass(frozen=True)
class Case:
    """One task; ``says`` is in its result, which shows that it went wrong, or well, in the intended way."""

    name: str
    options: Json
    says: str
    module: str = CHECK
    environment: dict[str, str] = field(default_factory=dict)


def secret(name: str) -> str:
    """A secret of its own for a case."""
    return f"{SECRET}-{name}-0123456789"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(server: str, *, cluster: Json | None = None, **user: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": user}],
    }


def pem(name: str) -> str:
    """A key whose content is a secret."""
    return f"-----BEGIN PRIVATE KEY-----\n{secret(name)}\n-----END PRIVATE KEY-----\n"


def cases(cluster: Cluster, folder: Path) -> list[Case]:
    """All cases; files that they need are in ``folder``."""
    return [*_of_options(cluster, folder), *_of_dicts(cluster), *_of_files(folder), *_of_environments(cluster, folder)]


def _of_options(cluster: Cluster, folder: Path) -> list[Case]:
    lab, open_lab = {"host": cluster.server}, {"host": cluster.server, "validate_certs": False}
    target = {"kind": "Deployment", "namespace": "default", "name": "web"}
    key = folder / "key.pem"
    key.write_text(pem("key-file"))
    login = f"u:{secret('login')}"
    wrong: Json = {"path": str(folder / "scheduler.yaml"), "kubernetes_version": "1.36", "name": "a", "plugins": {"x": {}}}
    profile: Json = {"configmap": {"name": "scheduler"}, "kubernetes_version": "1.36", "name": "a"}
    return [
        Case("a wrong token for a ConfigMap", {**open_lab, **profile, "api_key": secret("a")}, "HTTP 401", PROFILE),
        Case("a wrong option of a profile", {**open_lab, **profile, "api_key": secret("a"), "force": "many"}, "many", PROFILE),
        Case("a wrong field of a profile", {**wrong, "api_key": secret("a"), "host": NOBODY}, "does not know", PROFILE),
        Case("line break in the token", {**open_lab, "api_key": f"{secret('a')}\n{secret('b')}"}, "no HTTP header may have"),
        Case("line break at the end", {**open_lab, "api_key": f"{secret('a')}\n", **target}, "no HTTP header may have", RESTART),
        Case("a letter that no header may have", {**open_lab, "api_key": f"{secret('a')}\u0142"}, "no HTTP header may have", RESCUE),
        Case("a wrong token", {**open_lab, "api_key": secret("a")}, "HTTP 401"),
        Case("a wrong token for a restart", {**open_lab, "api_key": secret("a"), **target}, "HTTP 401", RESTART),
        Case("a wrong token for a rescue", {**open_lab, "api_key": secret("a")}, "HTTP 401", RESCUE),
        Case("nobody listens", {"host": NOBODY, "api_key": secret("a")}, "no answer from "),
        Case("a certificate that is not trusted", {**lab, "api_key": secret("a")}, "ertificate"),
        Case("a wrong password", {**open_lab, "username": "u", "password": secret("a")}, "HTTP 403"),
        Case("a wrong option", {**open_lab, "api_key": secret("a"), "max_skew": "many"}, "many"),
        Case("a key that is none", {"host": NOBODY, "client_cert": str(key), "client_key": str(key)}, "not a pair in PEM format"),
        Case("a proxy with a login", {"host": NOBODY, "api_key": secret("a"), "proxy": f"http://{login}@127.0.0.1:1"}, "no answer"),
        Case("a proxy that is none", {"host": NOBODY, "api_key": secret("a"), "proxy": f"{login}@127.0.0.1:x"}, "the proxy is not a URL"),
        Case("a host with a login", {"host": f"https://{login}@127.0.0.1:1", "api_key": secret("a")}, "has a user name in it"),
    ]


def _of_dicts(cluster: Cluster) -> list[Case]:
    good = kubeconfig(NOBODY, token=secret("a"))
    misplaced = {**good, "users": [{"name": "me", "token": secret("a"), "user": {"tokn": secret("b")}}]}
    oidc = {"name": "oidc", "config": {"client-secret": secret("a"), "refresh-token": secret("b"), "idp-issuer-url": NOBODY}}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere", "env": [{"name": "X", "value": secret("a")}]}
    data = {"client-certificate-data": encoded(pem("c")), "client-key-data": encoded(pem("d"))}
    return [
        Case("nobody listens at the dict's server", {"kubeconfig": good}, "no answer from "),
        Case(
            "a dict for a ConfigMap",
            {"kubeconfig": good, "configmap": {"name": "scheduler"}, "kubernetes_version": "1.36", "name": "a"},
            "no answer",
            PROFILE,
        ),
        Case("a wrong option beside a dict", {"kubeconfig": good, "max_skew": "many"}, "many"),
        Case("an unknown option beside a dict", {"kubeconfig": good, "nonsense": 1}, "nsupported"),
        Case("a token at the wrong place", {"kubeconfig": misplaced}, "no answer"),
        Case("a missing user", {"kubeconfig": {**good, "users": [{"name": "other", "user": {"token": secret("a")}}]}}, "no user me"),
        Case("a token in a list", {"kubeconfig": kubeconfig(NOBODY, token=[secret("a")])}, "is not a text"),
        Case("certificates that are none", {"kubeconfig": kubeconfig(NOBODY, **data)}, "not a pair in PEM format"),
        Case("a provider that fails", {"kubeconfig": kubeconfig(NOBODY, **{"auth-provider": oidc})}, "exec or auth-provider failed"),
        Case("a plugin that fails", {"kubeconfig": kubeconfig(NOBODY, exec=plugin)}, "neither a token nor a certificate"),
        Case("a check that succeeds", {"kubeconfig": yaml.safe_load(cluster.kubeconfig.read_text())}, "summary"),
        Case("a line break in the dict's token", {"kubeconfig": kubeconfig(NOBODY, token=f"{secret('a')}\n")}, "no HTTP header may have"),
    ]


def _of_files(folder: Path) -> list[Case]:
    good = kubeconfig(NOBODY, token=secret("f"))
    unnamed = copy.deepcopy(good)
    unnamed["users"] = [{"name": "me", "token": secret("f")}]
    texts = {
        "alias": (f"users:\n- user: {{token: *{secret('f')}}}\n", "not a YAML document: line 2"),
        "tag": (f"users:\n- user: {{token: !{secret('f')} x}}\n", "not a YAML document: line 2"),
        "bracket": (f"users: [token: {secret('f')}\n  % {secret('f')}", "not a YAML document"),
        "binary": (f"token: {secret('f')}\x00\x01", "not a YAML document"),
        "list": (yaml.safe_dump([good]), "it has no keys"),
        "nobody": (yaml.safe_dump(good), "no answer"),
        "no-user": (yaml.safe_dump(unnamed), "no answer"),
        "oidc": (yaml.safe_dump(kubeconfig(NOBODY, **{"auth-provider": {"name": "oidc", "secret": secret("f")}})), "neither a token"),
        "gcp": (yaml.safe_dump(kubeconfig(NOBODY, **{"auth-provider": {"name": "gcp", "secret": secret("f")}})), "exec or auth-provider"),
    }
    found = []
    for name, (text, says) in texts.items():
        path = folder / f"{name}.kubeconfig"
        path.write_text(text)
        found.append(Case(f"file: {name}", {"kubeconfig": str(path)}, says))
    inline = yaml.safe_dump(good)
    return [
        *found,
        Case("the content as a text", {"kubeconfig": f"# a kubeconfig\n{inline}"}, "is the content of a kubeconfig"),
        Case("the content as JSON", {"kubeconfig": json.dumps(good)}, "failed"),
    ]


def _of_environments(cluster: Cluster, folder: Path) -> list[Case]:
    host = {"K8S_AUTH_HOST": cluster.server, "K8S_AUTH_VERIFY_SSL": "no"}
    (folder / "broken").mkdir()
    (folder / "broken" / "urllib3.py").write_text("raise RuntimeError('a library that cannot be loaded')\n")
    crash = {"PYTHONPATH": os.pathsep.join([str(folder / "broken"), os.environ.get("PYTHONPATH", "")])}
    nobody = {"host": NOBODY, "api_key": secret("e")}
    proxy = {"K8S_AUTH_PROXY": f"http://u:{secret('p')}@127.0.0.1:1"}
    return [
        Case("a token of the environment", {}, "HTTP 401", environment={**host, "K8S_AUTH_API_KEY": secret("e")}),
        Case("its line break", {}, "no HTTP header may have", environment={**host, "K8S_AUTH_API_KEY": f"{secret('e')}\n{secret('f')}"}),
        Case("its password", {}, "HTTP 403", environment={**host, "K8S_AUTH_USERNAME": "u", "K8S_AUTH_PASSWORD": secret("e")}),
        Case(
            "its token for a ConfigMap",
            {"configmap": {"name": "scheduler"}, "kubernetes_version": "1.36", "name": "a", "manifest": "/nowhere"},
            "there is no file /nowhere",
            PROFILE,
            {**host, "K8S_AUTH_API_KEY": secret("e")},
        ),
        Case("its proxy", nobody, "no answer", environment=proxy),
        Case("a module that ends with a traceback", nobody, "cannot be loaded", environment=crash),
    ]
