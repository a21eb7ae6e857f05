# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
#
# Print everything of a machine that a role may change: packages, users, units, and files with their mode, owner and content. The links in
# /etc/systemd/system are the units that are enabled. Files that Debian's own programs write by themselves are left out.
set -eu

dpkg-query --show --showformat='package ${Package} ${Version} ${db:Status-Status}\n'
# A package of Debian does not remove its user.
sed -n '/^prometheus:/!s/^/user /p' /etc/passwd
sed -n '/^prometheus:/!s/^/group /p' /etc/group
systemctl list-units --no-legend --no-pager --plain --all --type=service '*node*exporter*' | sed 's/^/unit /'
for unit in node_exporter prometheus-node-exporter; do
  echo "process $unit $(systemctl show --property=MainPID --property=NRestarts "$unit" | sort | tr '\n' ' ')"
done
find / -xdev \( -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/tmp \
    -o -path "$HOME/.ansible" -o -name __pycache__ -o -path '/etc/passwd*' -o -path '/etc/group*' -o -path '/etc/*shadow' -o -path '/etc/*-' -o -path /etc/.pwd.lock \) \
  -prune -o -type d -printf 'folder %m %u:%g %p\n' -o -printf 'file %y %m %u:%g %s %p %l\n'
find /etc /usr/local /opt -xdev -type f ! -path '/etc/passwd*' ! -path '/etc/group*' ! -path '/etc/*shadow' ! -path '/etc/*-' -exec sha256sum {} +
