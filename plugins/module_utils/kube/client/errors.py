# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The errors of requests to an API server, with texts that name a remedy."""

from __future__ import annotations

import re
import typing as t

from ...model.messages import role_documentation
from ...model.undecodable import Undecodable


class KubeError(Exception):
    """Base of all errors of this folder. The text names the object, the problem and the remedy.

    ``repeated``: the same write was sent before and its answer was lost, so it may have been carried out in spite of this error.
    """

    repeated = False


class UnreachableError(KubeError):
    """There was no answer from the API server: refused, timed out, wrong certificate, broken connection."""


class NotSentError(UnreachableError):
    """A write was not sent, because the remaining time may be too short for it."""


class TruncatedResponseError(UnreachableError):
    """The body of an answer is not complete or not from an API server, for example behind a proxy that has lost its server."""


class TLSError(UnreachableError):
    """TLS was not established, for example because a certificate is not trusted. Nothing was sent, and a repetition does not help."""


class ConfigurationError(KubeError):
    """The kubeconfig, the context or the credentials cannot be used."""


class ResponseDecodeError(KubeError):
    """The API server's answer does not match its type."""


class UndecodableError(ResponseDecodeError):
    """One object cannot be decoded. The text names it."""

    def __init__(self, undecodable: Undecodable) -> None:
        super().__init__(undecodable.text)
        self.undecodable = undecodable


class Cause(t.NamedTuple):
    """One of ``details.causes`` in an error's Status: a code for programs, and a text."""

    reason: str
    message: str


class ApiError(KubeError):
    """The API server answered with an error status.

    ``status`` is the HTTP code. ``retry_after_s`` is the time that the server requires before a repetition, or None. ``reason`` is the
    Status's reason, or None if the answer is not a Status. ``causes`` are its ``details.causes``.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int,
        retry_after_s: t.Optional[float] = None,
        reason: t.Optional[str] = None,
        causes: tuple[Cause, ...] = (),
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        self.reason = reason
        self.causes = causes

    @property
    def is_rejection(self) -> bool:
        """Return whether the request was rejected before anything was stored. A redirection (3xx) of a proxy does not prove it."""
        return 400 <= self.status < 500


class UnauthorizedError(ApiError):
    """401: the credentials are wrong or expired."""


class ForbiddenError(ApiError):
    """403: a role lacks a verb on a resource, or an admission plugin denied the request.

    ``early``: the server may have just started and may not know all roles yet (``early_denials.py``).
    """

    early = False

    @property
    def lacks_role(self) -> bool:
        """Return whether the user lacks a role (kubernetes ``endpoints/handlers/responsewriters/errors.go``).

        Otherwise the object was denied.
        """
        return _LACKS_ROLE.search(str(self)) is not None


class NotFoundError(ApiError):
    """404: the object, namespace or kind does not exist."""


class ConflictError(ApiError):
    """409: the object was changed since it was read. If the write is ``repeated``, the change may be its own."""


class PatchTestError(ConflictError):
    """422 to a JSON patch with a test: the test failed, or a path no longer exists. The object was changed since it was read."""


class ExpiredError(ApiError):
    """410: the continue token or the resource version is too old."""


class InvalidError(ApiError):
    """400 or 422: the server rejected the content of the request."""


class DryRunUnsupportedError(InvalidError):
    """400 to a dry run: the API server does not call a webhook that may have side effects, so the webhook's answer is not known."""


class OverloadedError(ApiError):
    """429: too many requests, or 403 from a server that has just started and whose admission does not know all objects yet."""


class BudgetError(OverloadedError):
    """429 to an eviction: a budget allows none now. With ``retry_after_s`` the budget's last change is still being processed."""


class MultipleBudgetsError(ApiError):
    """500 to an eviction: several PodDisruptionBudgets select the pod. A repetition does not help."""


_DENIED = re.compile(r"""admission webhook "[^"]*" denied the request|[Pp]olicy ['"][^'"]*['"] .*denied request""", re.DOTALL)
"""Matches the API server's message for a denial by a webhook or an admission policy, with any status.

Sources: k8s.io/apiserver ``admission/plugin/webhook/errors/statuserror.go``, ``admission/plugin/policy/validating/dispatcher.go``.
"""

_FAILED_WEBHOOK = re.compile(r'failed calling webhook "')
"""Matches the API server's message for a required webhook that cannot be called (k8s.io/apiserver ``pkg/util/webhook/error.go``)."""

_NO_DRY_RUN = re.compile(r'admission webhook "[^"]*" does not support dry run')
"""Source: k8s.io/apiserver ``admission/plugin/webhook/errors/statuserror.go``, NewDryRunUnsupportedErr."""

_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of admission's message in a 403 until it knows the objects that it needs.

Source: k8s.io/apiserver ``admission/plugin/webhook/generic``.
"""

_LACKS_ROLE = re.compile(r'User "[^"]*" cannot ')

ANONYMOUS = 'User "system:anonymous" cannot '
"""The API server's message for credentials that it does not know. A role for this user would be a role for everybody."""

DISRUPTION_BUDGET = "DisruptionBudget"
"""The cause that distinguishes an eviction's 429 from an overloaded server's (k8s.io/api ``policy/v1`` DisruptionBudgetCause)."""

_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: OverloadedError,
}


def is_transient(error: KubeError) -> bool:
    """Return whether the server may answer otherwise soon: it was unreachable or overloaded, had an error, or has just started."""
    if isinstance(error, (TLSError, MultipleBudgetsError)) or is_admission_denial(error):
        return False
    if isinstance(error, ForbiddenError):
        return error.early
    return isinstance(error, (OverloadedError, UnreachableError)) or (isinstance(error, ApiError) and error.status >= 500)


def was_not_applied(error: KubeError) -> bool:
    """Return whether the server certainly did nothing: the write was not sent, or was rejected before anything was stored."""
    if error.repeated:
        return False
    if isinstance(error, UnreachableError):
        return isinstance(error, (NotSentError, TLSError))
    return isinstance(error, ApiError) and (
        error.is_rejection
        or isinstance(error, MultipleBudgetsError)
        or is_admission_denial(error)
        or _FAILED_WEBHOOK.search(str(error)) is not None
    )


def may_have_succeeded(error: KubeError) -> bool:
    """Return whether the server may have carried out the request despite the error. Only a read of the object shows it."""
    if error.repeated:
        return True
    if isinstance(error, UnreachableError):
        return not isinstance(error, (NotSentError, TLSError))
    return isinstance(error, ApiError) and not error.is_rejection and not isinstance(error, MultipleBudgetsError)


def answer_was_lost(error: KubeError) -> bool:
    """Return whether the answer was lost, or came from a proxy. The API server may still be processing the request."""
    if error.repeated:
        return True
    if isinstance(error, UnreachableError):
        return not isinstance(error, (NotSentError, TLSError))
    return isinstance(error, ApiError) and not error.is_rejection and error.reason is None


def is_admission_denial(error: KubeError) -> bool:
    """Return whether a webhook, a policy or a plugin of admission denied the request. Then the user has the role."""
    if not isinstance(error, ApiError):
        return False
    return _DENIED.search(str(error)) is not None or (isinstance(error, ForbiddenError) and not error.lacks_role)


def is_permission_error(error: KubeError) -> bool:
    """Return whether the user is not known or lacks a role. Every other request also fails until the credentials or roles are changed."""
    return isinstance(error, UnauthorizedError) or (isinstance(error, ForbiddenError) and error.lacks_role and not error.early)


class RequestTarget(t.NamedTuple):
    """The target of a request, in the words of its error.

    ``text`` names it (``deployments shop/web``). ``scope`` is the resource and the namespaces in which a role has to grant the verb
    (``deployments in namespace shop``). ``remedy`` is an alternative to the role, if there is one.
    """

    text: str
    scope: str = ""
    remedy: str = ""


def api_error(
    *,
    verb: str,
    target: RequestTarget,
    status: int,
    message: str,
    retry_after_s: t.Optional[float] = None,
    reason: t.Optional[str] = None,
    causes: tuple[Cause, ...] = (),
    user_agent: str = "",
) -> ApiError:
    """Return the error for one answer. ``verb`` (such as ``list``) and ``target`` are part of its text.

    ``user_agent`` is the name of the module or program. The error about a missing verb has the address of its role.
    """
    kind = _BY_STATUS.get(status, ApiError)
    blamed = [cause.message for cause in causes if cause.reason == DISRUPTION_BUDGET]
    if status == 429 and blamed:
        kind, advice = BudgetError, " ".join([message, *blamed])
    elif status == 400 and _NO_DRY_RUN.search(message):
        kind, advice = DryRunUnsupportedError, message
    elif status == 403 and message.endswith(_NOT_READY):
        kind, advice = OverloadedError, f"{message} (HTTP 403). The API server has just started: try again later."
    else:
        advice = _advice(status, verb, target, message, user_agent)
    return kind(f"cannot {verb} {target.text}: {advice}", status=status, retry_after_s=retry_after_s, reason=reason, causes=causes)


def _advice(status: int, verb: str, target: RequestTarget, message: str, user_agent: str) -> str:
    said = message or f"HTTP status {status}"
    if status == 401:
        return f"{said} (HTTP 401). The credentials are missing, wrong or expired: renew the token or client certificate in use."
    if _DENIED.search(said):
        return said
    if status == 403 and ANONYMOUS in said:
        remedy = "give a token, or a client certificate and its key"
        return f"{said} (HTTP 403). The API server has found no credentials that it knows: {remedy}."
    if status == 403:
        remedy = f", or {target.remedy}" if target.remedy else ""
        role = role_documentation(user_agent)
        return f"{said} (HTTP 403). Grant the verb '{verb}' on {target.scope or target.text} to this user{remedy}. {role}"
    if status == 404:
        return f"{said} (HTTP 404). Check its name, namespace and kind."
    if status == 429:
        return f"{said} (HTTP 429). The API server is overloaded: try again later."
    return f"{said} (HTTP {status})"
