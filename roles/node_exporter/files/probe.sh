# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
#
# Print what a host has, each line as a word and its values. Changes nothing. One program for all of it costs one task.
# vars/main.yml reads the lines. These variables are set: PROBE_USER, PROBE_GROUP, PROBE_PROGRAM, PROBE_RECORD, PROBE_PREVIOUS, PROBE_TEXTFILE, and as lines
# PROBE_INTERFACES, PROBE_PORTS and PROBE_FILES.
set -u

echo "self $(id -u) $(id -un)"
uid=$(id -u "$PROBE_USER" 2>&1) && echo "user $uid" || uid=
gid=$(getent group "$PROBE_GROUP" | cut -d: -f3)
[ -n "$gid" ] && echo "group $gid"

for unit in node_exporter.service prometheus-node-exporter.service; do
  pid=$(systemctl show --property=MainPID --value "$unit" 2>&1) || pid=0
  if [ "$pid" -gt 0 ]; then
    echo "pid $unit $pid"
    tr '\0' '\n' < "/proc/$pid/environ" | sed -n "s/^NODE_EXPORTER_CONFIGURATION=/running $unit /p"
  fi
done
for file in /etc/systemd/system/node_exporter.service /etc/systemd/system/prometheus-node-exporter.service.d/kube-scheduling.conf; do
  [ -f "$file" ] && grep -q NODE_EXPORTER_CONFIGURATION "$file" && echo "managed $file"
done

package=$(dpkg-query --show --showformat='${db:Status-Status} ${Version}' prometheus-node-exporter 2>&1) && echo "package $package"
[ -f "$PROBE_PROGRAM" ] && echo "program $(sha256sum < "$PROBE_PROGRAM" | cut -d' ' -f1)"
[ -f "$PROBE_RECORD" ] && echo "record $(cat "$PROBE_RECORD")"
[ -f "$PROBE_PREVIOUS" ] && echo "interrupted"
[ -n "$PROBE_TEXTFILE" ] && [ -d "$PROBE_TEXTFILE" ] && echo "textfile"
[ -f /etc/tmpfiles.d/node_exporter.conf ] && sed -n 's/^d \([^ ]*\) .*/tmpfiles \1/p' /etc/tmpfiles.d/node_exporter.conf

echo "$PROBE_INTERFACES" | while read -r interface; do
  [ -n "$interface" ] && ip -oneline address show dev "$interface" 2>&1 | awk -v interface="$interface" '
    $3 ~ /^inet6?$/ && / scope global / && !/ (temporary|deprecated|tentative|dadfailed)( |$)/ {
      # A floating address, such as of keepalived or kube-vip, has no network. It may move to another host.
      split($4, parts, "/")
      floats = parts[2] == "" || parts[2] == ($3 == "inet" ? 32 : 128)
      family[++count] = $3; address[count] = parts[1]; floating[count] = floats
      if (!floats) fixed[$3] = 1
    }
    END { for (i = 1; i <= count; i++) if (!floating[i] || !fixed[family[i]]) print "address", interface, address[i] }'
done

# The address with which the host reaches others, by IPv6 if it has no IPv4. No packet is sent. A host without a route for it has its first address.
read_source() {
  source=$(ip "-$1" -oneline route get "$2" 2>&1 | sed -n 's/.* src \([^ ]*\).*/\1/p')
  [ -n "$source" ] || source=$(ip "-$1" -oneline address show scope global 2>&1 | sed -n '1s/.* inet6* \([^/]*\).*/\1/p')
}
read_source 4 192.0.2.1
[ -n "$source" ] || read_source 6 2001:db8::1
echo "source $source"

# Listeners without a process are those of the kernel, such as NFS.
ss --no-header --listening --tcp --numeric --processes 2>&1 | while read -r _state _received _sent address _peer processes; do
  if echo "$PROBE_PORTS" | grep -qx "${address##*:}"; then
    name=$(echo "$processes" | sed -n 's/.*(("\([^"]*\)".*/\1/p')
    pid=$(echo "$processes" | sed -n 's/[^=]*pid=\([0-9]*\).*/\1/p')
    unit=$([ -n "$pid" ] && sed -n 's,.*/\([^/]*\.\(service\|scope\)\).*,\1,p' "/proc/$pid/cgroup" | tail -n 1)
    echo "listener $address ${pid:-0} ${unit:--} ${name:-kernel}"
  fi
done

# Read as the service does, also before its user exists. Then it is a user without any right.
echo "$PROBE_FILES" | while read -r file; do
  if [ -n "$file" ]; then
    groups=--clear-groups
    [ -n "$uid" ] && groups=--init-groups
    error=$(setpriv --reuid "${uid:-65534}" --regid "${gid:-65534}" "$groups" -- head -c 1 "$file" 2>&1) ||
      echo "unreadable $file ${error##*: }"
  fi
done
exit 0
