# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations as clusters have them: those of the four original systems in today's form, and one for each feature and API version."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A text, the Kubernetes version of its cluster, and the plugins that are not in Kubernetes."""

    text: str
    version: str = "1.36"
    known_plugins: tuple[str, ...] = ()

    @property
    def is_newest(self) -> bool:
        """Return whether its API version is that of its cluster."""
        return self.version == "1.36" and "/v1\n" in self.text


EXAMPLES = {
    "kubeadm": Example("""\
# Written when the cluster was installed.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
    kubeconfig: /etc/kubernetes/scheduler.conf   # its own user
leaderElection:
    leaderElect: true
"""),
    "customScheduler": Example(
        """\
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/scheduler.conf
profiles:
  - schedulerName: custom-scheduler
    plugins:
      score:
        enabled:
          - name: "NetworkTraffic"
        disabled:
          - name: "*"      # only the traffic counts
    pluginConfig:
      - name: "NetworkTraffic"
        args:
          ip: "http://10.0.0.4:9090"
          deviceName: "eth0"
          timeRange: 60
""",
        known_plugins=("NetworkTraffic",),
    ),
    "safe scheduler": Example("""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: my-scheduler}
profiles:
- schedulerName: default-scheduler
- schedulerName: my-scheduler
extenders:
# The risk of overload.
- urlPrefix: "http://127.0.0.1:5401/scheduler"
  filterVerb: "predicates/safe-overload"
  prioritizeVerb: "priorities/safe-overload"
  weight: 1
  enableHTTPS: false
  nodeCacheCapable: false
# The balance.
- {urlPrefix: "http://127.0.0.1:5402/scheduler", prioritizeVerb: priorities/safe-balance, weight: 10}
"""),
    "kubespray": Example("""\
---
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: "/etc/kubernetes/scheduler.conf"
  qps: 50
  burst: 100
leaderElection:
  leaderElect: True
  leaseDuration: 15s
  renewDeadline: 10s
extenders: []
profiles:
  - schedulerName: default-scheduler
"""),
    "several profiles": Example("""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
  # Packs nodes.
  - schedulerName: bin-packing
    percentageOfNodesToScore: 20
    plugins:
      multiPoint:
        enabled:
          - {name: NodeResourcesFit, weight: 5}
      score:
        disabled:
          - name: NodeResourcesBalancedAllocation
    pluginConfig:
      - name: NodeResourcesFit
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: NodeResourcesFitArgs
          scoringStrategy:
            type: RequestedToCapacityRatio
            resources: [{name: intel.com/foo, weight: 3}, {name: cpu}]
            requestedToCapacityRatio:
              shape:
                - utilization: 0
                  score: 0
                - utilization: 100
                  score: 10
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - maxSkew: 1
              topologyKey: topology.kubernetes.io/zone
              whenUnsatisfiable: ScheduleAnyway
  # Does not score.
  - schedulerName: no-scoring-scheduler
    plugins:
      preScore: {disabled: [{name: '*'}]}
      score: {disabled: [{name: '*'}]}
"""),
    "v1beta3 on 1.26": Example(
        """\
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: ImageLocality}]   # images are everywhere
""",
        version="1.26",
    ),
    "v1beta2 on 1.24": Example(
        """\
# In v1beta2 the default plugins have other weights.
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated}
""",
        version="1.24",
    ),
    "json": Example(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "a"}]}\n'
    ),
}
