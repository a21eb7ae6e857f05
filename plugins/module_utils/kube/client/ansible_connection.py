# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection of Ansible modules, with kubernetes.core's options. Only this file imports Ansible's module code.

Of kubernetes.core only the options are imported, because Ansible packs and compiles everything that an import statement reaches.
"""

from __future__ import annotations

import os
import sys
import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

from ...model.codec import MSGSPEC_IMPORT_ERROR
from ...model.option_values import OptionError
from .api import KubeApi
from .config.connection_options import given_options
from .config.files import ConnectionSettingsError
from .config.secrets import secrets_in
from .config.yaml_text import YAML_IMPORT_ERROR
from .errors import KubeError
from .http.connection import URLLIB3_IMPORT_ERROR
from .open_transport import make_transport, read_version

__all__ = ["AUTH_ARG_SPEC", "connect", "make_module", "run_module"]

COLLECTION = "onprem.kube_scheduling"
LIBRARIES = ("kubernetes", "msgspec", "'urllib3>=2'", "PyYAML")
IMPORT_ERRORS = {"msgspec": MSGSPEC_IMPORT_ERROR, "urllib3 >= 2": URLLIB3_IMPORT_ERROR, "PyYAML": YAML_IMPORT_ERROR}


# Ansible has no type annotations.
class _Module(AnsibleModule):  # type: ignore[misc]
    """A module whose results contain none of the secrets in its options, even if it fails early, and name the cluster."""

    cluster: t.ClassVar[t.Mapping[str, t.Any]] = {}

    def _load_params(self) -> None:
        """Find the secrets before the options are checked. The error for another option contains all options."""
        super()._load_params()
        self.no_log_values.update(secrets_in(self.params, os.environ))

    def exit_json(self, **result: t.Any) -> None:
        """Return the result with the cluster, and with the diff if it is asked for."""
        super().exit_json(**self._completed(result))

    def fail_json(self, msg: str, **result: t.Any) -> None:
        """Return the failed result with the cluster, if it is known."""
        super().fail_json(msg, **self._completed(result))

    def _completed(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        return {**self.cluster, **{key: value for key, value in result.items() if key != "diff" or self._diff}}


def make_module(argument_spec: dict[str, t.Any], **options: t.Any) -> t.Any:
    """Return an AnsibleModule with the connection options added. If a library is missing, the module fails and names the library."""
    # In kubernetes.core 6.2 the whole option is no_log, which would hide the path in each message. _Module finds the secrets in it.
    connection = {**AUTH_ARG_SPEC, "kubeconfig": {"type": "raw", "no_log": False}}
    module = _Module(argument_spec={**connection, **argument_spec}, supports_check_mode=True, **options)
    for library, error in IMPORT_ERRORS.items():
        if error is not None:
            install = f"{sys.executable} -m pip install --upgrade {' '.join(LIBRARIES)}"
            text = f"{missing_required_lib(library)}. To install all libraries of the module, run: {install}"
            module.fail_json(msg=text, exception=error)
    return module


def run_module(argument_spec: dict[str, t.Any], execute: t.Callable[[t.Any, dict[str, t.Any]], None], **options: t.Any) -> None:
    """Run a module: ``execute`` fills in the result, which may have failed. After a known error it has what is in it until then."""
    module = make_module(argument_spec, **options)
    result: dict[str, t.Any] = {"changed": False}
    try:
        execute(module, result)
    except (ConnectionSettingsError, KubeError, OptionError, OSError) as error:
        # The traceback is shown with -vvv.
        result.update(failed=True, msg=str(error), exception="".join(traceback.format_exception(None, error, error.__traceback__)))
    (module.fail_json if result.get("failed") else module.exit_json)(**result)


def connect(module: t.Any, *, name: str, client: type[KubeApi] = KubeApi) -> KubeApi:
    """Return the API client for the module's options. Results then name the cluster.

    ``name`` is the module's name, for the user agent. Raises ConfigurationError, UnreachableError or UnauthorizedError.
    """
    transport = make_transport(given_options(module.params, os.environ), user_agent=f"{COLLECTION}/{name}")
    module.cluster = {"cluster": transport.cluster.fields()}
    read_version(transport)
    return client(transport)
