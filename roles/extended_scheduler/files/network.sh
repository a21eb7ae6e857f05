# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
#
# Print what prevents the programs of the role from listening, and from finding their sources. Changes nothing.
#   listener ADDRESS PID UNIT NAME   a process that listens at one of the ports. A process of the kernel has the PID 0
#   unresolved NAME                  a name that the host does not resolve
# These variables are set, as lines: NETWORK_PORTS and NETWORK_NAMES. If the file NETWORK_OWN exists, the host runs the programs already, and
# no listener is printed.

if [ ! -e "$NETWORK_OWN" ]; then
  ss --no-header --listening --tcp --numeric --processes | while read -r _state _received _sent address _peer processes; do
    if echo "$NETWORK_PORTS" | grep -qx "${address##*:}"; then
      name=$(echo "$processes" | sed -n 's/.*(("\([^"]*\)".*/\1/p')
      pid=$(echo "$processes" | sed -n 's/[^=]*pid=\([0-9]*\).*/\1/p')
      unit=$([ -n "$pid" ] && sed -n 's,.*/\([^/]*\.\(service\|scope\)\).*,\1,p' "/proc/$pid/cgroup" | tail -n 1)
      echo "listener $address ${pid:-0} ${unit:--} ${name:-kernel}"
    fi
  done
fi
# "getent hosts" asks for the name of an address, which many addresses do not have.
echo "$NETWORK_NAMES" | while read -r name; do
  [ -z "$name" ] || getent ahosts "$name" > /dev/null || echo "unresolved $name"
done
