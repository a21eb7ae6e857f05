# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of configurations, and whether kube-scheduler accepts each. It decodes them strictly.

``tests/integration/scheduler_config/test_texts.py`` asks the program. KUBECONFIG stands for the path of a kubeconfig.
"""

from __future__ import annotations

import textwrap

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: KUBECONFIG}\n"
EXTENDERS = "extenders:\n- &a {urlPrefix: 'http://127.0.0.1:1'}\n- &b {urlPrefix: 'http://127.0.0.1:2', weight: 1}\n"


def _args(plugin: str, args: str) -> str:
    return f"{HEAD}profiles: [{{schedulerName: a, pluginConfig: [{{name: {plugin}, args: {args}}}]}}]\n"


def _without_indentation(text: str) -> str:
    return "\n".join(line.strip() for line in textwrap.dedent(text).splitlines())


REFUSED = {
    "a misspelt field": f"{HEAD}profile: [{{schedulerName: a}}]\n",
    "lost indentation": _without_indentation(
        """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        clientConnection:
          kubeconfig: "/var/lib/kubernetes/kube-scheduler.kubeconfig"
        leaderElection:
          leaderElect: true
        """
    ),
    "another case": f"{HEAD}Profiles: [{{schedulerName: a}}]\n",
    "another case in a profile": f"{HEAD}profiles: [{{schedulername: a}}]\n",
    "another case in arguments": _args("NodeResourcesFit", "{IgnoredResources: [a.b/c]}"),
    "another case in JSON": '{"Parallelism": 1, "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", '
    '"clientConnection": {"kubeconfig": "KUBECONFIG"}}',
    "another case of the kind": HEAD.replace("kind:", "Kind:"),
    "null for an unknown field": f"{HEAD}unknown: null\n",
    "metadata": f"{HEAD}metadata: {{}}\n",
    "an anchor of its own": f"{HEAD}x-names: &names {{name: a}}\n",
    "arguments of an in-tree plugin": _args("NodeResourcesFit", "{unknown: 1}"),
    "the kind of other arguments": _args("NodeResourcesFit", "{kind: OtherArgs}"),
    "beside the arguments": f"{HEAD}profiles: [{{schedulerName: a, pluginConfig: [{{name: Foreign, arg: {{}}}}]}}]\n",
    "a plugin of a set": f"{HEAD}profiles: [{{schedulerName: a, plugins: {{score: {{disabled: [{{name: '*', Weight: 1}}]}}}}}}]\n",
    "an extender": f"{HEAD}extenders: [{{urlPrefix: 'http://127.0.0.1:1', unknown: 1}}]\n",
    "the TLS settings of an extender": f"{HEAD}extenders: [{{urlPrefix: 'http://127.0.0.1:1', tlsConfig: {{unknown: 1}}}}]\n",
    "clientConnection": HEAD.replace("KUBECONFIG}", "KUBECONFIG, unknown: 1}"),
    "clientConnection in another case": HEAD.replace("{kubeconfig", "{kubeConfig"),
    "leaderElection": f"{HEAD}leaderElection: {{leaderelect: false}}\n",
    "a key twice": f"{HEAD}parallelism: 1\nparallelism: 2\n",
    "a key twice with one value": f"{HEAD}parallelism: 1\nparallelism: 1\n",
    "a key twice in a profile": f"{HEAD}profiles: [{{schedulerName: a, schedulerName: b}}]\n",
    "a key twice in arguments": _args("NodeResourcesFit", "{ignoredResources: [], ignoredResources: []}"),
    "a key twice in arguments of another plugin": _args("Foreign", "{a: 1, a: 2}"),
    "a key twice in JSON": '{"parallelism": 1, "parallelism": 1, "apiVersion": "kubescheduler.config.k8s.io/v1", '
    '"kind": "KubeSchedulerConfiguration", "clientConnection": {"kubeconfig": "KUBECONFIG"}}',
    "a merged key before its own": f"{HEAD}{EXTENDERS}- {{<<: *a, urlPrefix: 'http://127.0.0.1:3'}}\n",
    "a merged key after its own": f"{HEAD}{EXTENDERS}- {{urlPrefix: 'http://127.0.0.1:3', <<: *a}}\n",
    "two merges with the same key": f"{HEAD}{EXTENDERS}- {{<<: [*a, *b]}}\n",
    "an unknown field in a merge": f"{HEAD}extenders: [{{<<: {{unknown: 1}}, urlPrefix: 'http://127.0.0.1:1'}}]\n",
    "a number as a key": f"{HEAD}5: a\n",
    "null as a key": f"{HEAD}null: a\n",
    "a list as a key": f"{HEAD}? [a]\n: 1\n",
    "an empty text": "",
    "a comment": "# nothing\n",
}
ACCEPTED = {
    "nothing else": HEAD,
    "null for known fields": f"{HEAD}profiles: null\nextenders: null\nleaderElection: null\nparallelism: null\n",
    "null in a profile": f"{HEAD}profiles: [{{schedulerName: a, plugins: null, pluginConfig: null}}]\n",
    "a profile that is null": f"{HEAD}profiles: [null]\n",
    "arguments of another plugin": _args("Foreign", "{unknown: 1, kind: Any}"),
    "arguments of a plugin without arguments": _args("NodeName", "{unknown: 1}"),
    "arguments that are a text": _args("Foreign", "text"),
    "a merge": f"{HEAD}extenders: [{{<<: {{nodeCacheCapable: true}}, urlPrefix: 'http://127.0.0.1:1'}}]\n",
    "numbers of Go": f"{HEAD}parallelism: 0o17\npodMaxBackoffSeconds: 1e2\n",
    "a short truth": f"{HEAD}enableProfiling: y\nenableContentionProfiling: on\n",
    "texts that look like other types": f"{HEAD}profiles: [{{schedulerName: 2001-01-01}}]\n",
    "a tag": f"{HEAD}profiles: [{{schedulerName: !!str 5}}]\n",
}
TEXTS = {**{name: (text, False) for name, text in REFUSED.items()}, **{name: (text, True) for name, text in ACCEPTED.items()}}
