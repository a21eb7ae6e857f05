# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection of Ansible modules: kubernetes.core's options and client. The only file that imports Ansible's side."""

from __future__ import annotations

import os
import sys
import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

from ..model.wire import MSGSPEC_IMPORT_ERROR
from .api import KubeApi
from .kubeconfig import Source
from .transport import CONNECTION_FAILURES, Transport, explain_connection_failure

__all__ = ["AUTH_ARG_SPEC", "connect", "fail", "make_module"]

COLLECTION = "onprem.kube_scheduling"
LIBRARIES = ("kubernetes", "msgspec")


# kubernetes.core comes without types.
class _Module(AnsibleK8SModule):  # type: ignore[misc]
    """As kubernetes.core's, but it says how to install what is missing."""

    def requires(self, dependency: str, minimum: t.Optional[str] = None, reason: t.Optional[str] = None) -> None:
        if not self.has_at_least(dependency, minimum):
            wanted = f"{dependency}>={minimum}" if minimum else dependency
            self.fail_json(msg=_missing(wanted, reason=reason))


def _missing(library: str, *, reason: t.Optional[str] = None) -> str:
    install = f"{sys.executable} -m pip install --upgrade {' '.join(LIBRARIES)}"
    return f"{missing_required_lib(library, reason=reason)} All that is needed comes with: {install}"


def make_module(argument_spec: dict[str, t.Any], **options: t.Any) -> t.Any:
    """An AnsibleK8SModule with the connection options added; fails with what is missing where a library is not installed."""
    module = _Module(module_class=AnsibleModule, argument_spec={**AUTH_ARG_SPEC, **argument_spec}, supports_check_mode=True, **options)
    if MSGSPEC_IMPORT_ERROR is not None:
        module.fail_json(msg=_missing("msgspec"), exception=MSGSPEC_IMPORT_ERROR)
    return module


def connect(module: t.Any, *, name: str) -> KubeApi:
    """The API as the module's options say; ``name`` is the module's, for the user agent.

    Raises ConfigurationError, UnreachableError or UnauthorizedError.
    """
    try:
        client = get_api_client(module).client
    except CoreException as error:
        raise explain_connection_failure(error.__cause__ or error, server=_server(module), source=_source(module)) from error
    except CONNECTION_FAILURES as error:  # kubernetes.core wraps only some of them
        raise explain_connection_failure(error, server=_server(module), source=_source(module)) from error
    return KubeApi(Transport(client, user_agent=f"{COLLECTION}/{name}"))


def _server(module: t.Any) -> str:
    return str(_setting(module, "host") or "")


def _source(module: t.Any) -> Source:
    return Source(_setting(module, "kubeconfig"), str(_setting(module, "context") or ""), _server(module))


def _setting(module: t.Any, name: str) -> t.Any:
    return module.params.get(name) or os.environ.get(f"K8S_AUTH_{name.upper()}")


def fail(module: t.Any, error: Exception, **result: t.Any) -> None:
    """End the module with a known error: its text for people, the traceback for -vvv."""
    module.fail_json(msg=str(error), exception="".join(traceback.format_exception(None, error, error.__traceback__)), **result)
