# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What can go wrong between this program and an API server, in words a person can act on."""

from __future__ import annotations

import re
import typing as t

from ...model.messages import ROLE_DOCUMENTATION
from ...model.undecodable import Undecodable


class KubeError(Exception):
    """Base of all errors of this room; its text names the object, what was wrong and what to do."""


class UnreachableError(KubeError):
    """No answer from the API server: refused, timed out, wrong certificate, broken off."""


class NotSentError(UnreachableError):
    """A write was not sent, because it could not surely have ended in the time that is left for it."""


class TruncatedResponseError(UnreachableError):
    """An answer came, and its compressed body is not whole, as through a proxy that has lost its server."""


class TLSError(UnreachableError):
    """TLS failed: the certificate is not trusted, or not the server's. Trying again does not help."""


class ConfigurationError(KubeError):
    """Kubeconfig, context or credentials cannot be used as given."""


class ResponseDecodeError(KubeError):
    """The API server's answer does not have the shape that its type has."""


class UndecodableError(ResponseDecodeError):
    """One object cannot be decoded; the text names it."""

    def __init__(self, undecodable: Undecodable) -> None:
        super().__init__(undecodable.text)
        self.undecodable = undecodable


class Cause(t.NamedTuple):
    """One of ``details.causes`` in an error's Status: a code for programs, and words."""

    reason: str
    message: str


class ApiError(KubeError):
    """The API server answered with an error status.

    ``status`` is the HTTP code, ``retry_after_s`` what the server asked for, if it did, ``reason`` the Status's (None where the answer
    is no Status), ``causes`` its ``details.causes``.
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


class UnauthorizedError(ApiError):
    """401: the credentials are wrong or expired."""


class ForbiddenError(ApiError):
    """403: a role lacks a verb on a resource, or an admission plugin refused.

    ``early``: the server may have just started and may not know all roles yet (``early_denials.py``).
    """

    early = False

    @property
    def lacks_role(self) -> bool:
        """It is about the user and not about the object (kubernetes ``endpoints/handlers/responsewriters/errors.go``)."""
        return _LACKS_ROLE.search(str(self)) is not None


class NotFoundError(ApiError):
    """404: no such object, namespace or kind."""


class ConflictError(ApiError):
    """409: the object changed since it was read.

    ``repeated``: the same request had been sent before, without an answer that says what came of it, so that the change may be its own.
    """

    repeated = False


class PatchTestError(ConflictError):
    """422 to a JSON patch with a test of its own: that did not hold, or a path is gone. The object changed since it was read."""


class ExpiredError(ApiError):
    """410: the continue token or the resource version is too old."""


class InvalidError(ApiError):
    """400 or 422: the server refused what was sent."""


class DryRunUnsupportedError(InvalidError):
    """400 to a dry run: the API server does not ask a webhook that may have side effects, and so cannot say what it would answer."""


class OverloadedError(ApiError):
    """429: too many requests at once; or 403 from a server that has just started, whose admission does not know all objects yet."""


class BudgetError(OverloadedError):
    """429 to an eviction: a PodDisruptionBudget allows none now, or, with ``retry_after_s``, its change is still being processed."""


class MultipleBudgetsError(ApiError):
    """500 to an eviction: several PodDisruptionBudgets select the pod. Trying again does not help."""


_DENIED = re.compile(r"""admission webhook "[^"]*" denied the request|[Pp]olicy ['"][^'"]*['"] .*denied request""", re.DOTALL)
"""What the API server says where a webhook or an admission policy denies a request, whatever status that asks for.

Sources: k8s.io/apiserver ``admission/plugin/webhook/errors/statuserror.go``, ``admission/plugin/policy/validating/dispatcher.go``.
"""

_FAILED_WEBHOOK = re.compile(r'failed calling webhook "')
"""What the API server says where a webhook that must be asked cannot be asked (k8s.io/apiserver ``pkg/util/webhook/error.go``)."""

_NO_DRY_RUN = re.compile(r'admission webhook "[^"]*" does not support dry run')
"""Source: k8s.io/apiserver ``admission/plugin/webhook/errors/statuserror.go``, NewDryRunUnsupportedErr."""

_NOT_READY = "is forbidden: not yet ready to handle request"
"""What admission says in a 403 until it knows the objects that it decides by (k8s.io/apiserver ``admission/plugin/webhook/generic``)."""

_LACKS_ROLE = re.compile(r'User "[^"]*" cannot ')

ANONYMOUS = 'User "system:anonymous" cannot '
"""What the API server says to everybody whose credentials it does not know. A role for this user would be one for all the world."""

DISRUPTION_BUDGET = "DisruptionBudget"
"""The cause of an eviction's 429 that tells it from an overloaded server's (k8s.io/api ``policy/v1`` DisruptionBudgetCause)."""

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
    """The server may answer otherwise in a moment: nobody was there, it has just started, or it was overloaded or in trouble itself."""
    if isinstance(error, (TLSError, MultipleBudgetsError)) or is_admission_denial(error):
        return False
    if isinstance(error, ForbiddenError):
        return error.early
    return isinstance(error, (OverloadedError, UnreachableError)) or (isinstance(error, ApiError) and error.status >= 500)


def was_not_applied(error: KubeError) -> bool:
    """The server surely did nothing: the write was not sent, or was turned down before anything was stored."""
    if isinstance(error, UnreachableError):
        return isinstance(error, (NotSentError, TLSError))
    return isinstance(error, ApiError) and (
        error.status < 500 or is_admission_denial(error) or _FAILED_WEBHOOK.search(str(error)) is not None
    )


def is_admission_denial(error: KubeError) -> bool:
    """A webhook, a policy or a plugin of admission denied the request: it is about the object, and the user has the role."""
    if not isinstance(error, ApiError):
        return False
    return _DENIED.search(str(error)) is not None or (isinstance(error, ForbiddenError) and not error.lacks_role)


def is_permission_error(error: KubeError) -> bool:
    """Whoever asks is not known, or has no role that allows it: no other request fares better until somebody changes that."""
    return isinstance(error, UnauthorizedError) or (isinstance(error, ForbiddenError) and error.lacks_role and not error.early)


class RequestTarget(t.NamedTuple):
    """What a request is about, in the words of its error.

    ``text`` names it (``deployments shop/web``), ``scope`` is where a role has to grant the verb (``deployments in namespace shop``).
    ``remedy`` says what to do instead, where there is something.
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
) -> ApiError:
    """The error for one answer; ``verb`` (such as ``list``) and ``subject`` go into its text."""
    kind = _BY_STATUS.get(status, ApiError)
    blamed = [cause.message for cause in causes if cause.reason == DISRUPTION_BUDGET]
    if status == 429 and blamed:
        kind, advice = BudgetError, " ".join([message, *blamed])
    elif status == 400 and _NO_DRY_RUN.search(message):
        kind, advice = DryRunUnsupportedError, message
    elif status == 403 and message.endswith(_NOT_READY):
        kind, advice = OverloadedError, f"{message} (HTTP 403). The API server has just started: try again later."
    else:
        advice = _advice(status, verb, target, message)
    return kind(f"cannot {verb} {target.text}: {advice}", status=status, retry_after_s=retry_after_s, reason=reason, causes=causes)


def _advice(status: int, verb: str, target: RequestTarget, message: str) -> str:
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
        return f"{said} (HTTP 403). Grant the verb '{verb}' on {target.scope or target.text} to this user{remedy}. {ROLE_DOCUMENTATION}"
    if status == 404:
        return f"{said} (HTTP 404). Check its name, namespace and kind."
    if status == 429:
        return f"{said} (HTTP 429). The API server is overloaded: try again later."
    return f"{said} (HTTP {status})"
