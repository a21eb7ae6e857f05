# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
#
# The units of the shape systemd on one host. vars/main.yml says which files there are.
#   probe           print what the host has, each line as a word and its values. Changes nothing
#   install FOLDER  make the units of the folder those of systemd, each by a rename, and print those that have changed
#   start UNIT...   start the units, or restart those whose process has an older unit, and print their names
#   healthy FOLDER  remember the folder as the one whose units work, and remove units and files that it does not need
#   restore         make the units that worked last those of systemd again, and start them. Without such units, remove all
#   remove          stop all units, and remove all files
# These variables are set: UNITS_FOLDER and UNITS_PROGRAMS, and for probe UNITS_PYTHON.
set -eu

system=/etc/systemd/system

own_units() {
  find "$system" -maxdepth 1 -type f \( -name 'kube-scheduling-scheduler.service' -o -name 'kube-scheduling-extender-*.service' \) \
    -printf '%f\n' | sort -r
}

# The value by which a unit and its process are compared.
hash_in() { sed -n 's/^Environment=KUBE_SCHEDULING_UNIT=//p' "$1"; }
running_hash() {
  pid=$(systemctl show --property=MainPID --value "$1")
  if [ "$pid" -gt 0 ] && [ -r "/proc/$pid/environ" ]; then
    tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^KUBE_SCHEDULING_UNIT=//p'
  fi
}

install_units() {
  for file in "$1"/*.service; do
    name=${file##*/}
    if ! cmp -s "$file" "$system/$name"; then
      install -m 0644 "$file" "$system/.$name.new"
      mv -f "$system/.$name.new" "$system/$name"
      echo "installed $name"
    fi
  done
  systemctl daemon-reload
  for file in "$1"/*.service; do
    systemctl --quiet enable "${file##*/}"
  done
}

start_units() {
  for unit in "$@"; do
    if [ "$(running_hash "$unit")" != "$(hash_in "$system/$unit")" ]; then
      systemctl restart "$unit"
      echo "started $unit"
    fi
  done
}

# The scheduler is the first one, because it asks the extenders.
remove_units() {
  for unit in $(own_units); do
    if [ -z "${1:-}" ] || [ ! -f "$1/$unit" ]; then
      systemctl --quiet disable --now "$unit"
      rm -f "$system/$unit"
      echo "removed $unit"
    fi
  done
  systemctl daemon-reload
}

# Remove the files of the role that no unit of the folder names.
remove_files() {
  for path in "$UNITS_FOLDER"/scheduler-* "$UNITS_FOLDER"/extender-* "$UNITS_FOLDER"/units-* "$UNITS_PROGRAMS"/kube-scheduler-* \
    "$UNITS_PROGRAMS"/services-* "$UNITS_PROGRAMS"/.services-*; do
    if [ -e "$path" ] && [ "$path" != "${1:-}" ] && { [ -z "${1:-}" ] || ! grep -qF "$path" "$1"/*.service; }; then
      rm -rf "$path"
    fi
  done
}

probe() {
  echo "self $(id -u) $(id -un)"
  echo "machine $(uname -m)"
  echo "hostname $(hostname)"
  [ -d /run/systemd/system ] && systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/systemd \1/p'
  "$UNITS_PYTHON" -c 'import os, sys; print("python", os.path.realpath(sys.executable), "%d.%d" % sys.version_info[:2], sys.maxsize > 2**32)'
  [ -e "$UNITS_FOLDER/healthy" ] && echo "healthy $(readlink "$UNITS_FOLDER/healthy")"
  for unit in $(own_units); do
    echo "unit $unit $(sha256sum < "$system/$unit" | cut -d ' ' -f 1) $(hash_in "$system/$unit") $(running_hash "$unit")"
    config=$(sed -n 's/^LoadCredential=scheduler.yaml://p' "$system/$unit")
    [ -f "$config" ] && echo "config $(base64 --wrap 0 "$config")"
  done
}

action=$1
shift
case $action in
  probe)
    set +e
    probe
    exit 0
    ;;
  install) install_units "$1" ;;
  start) start_units "$@" ;;
  healthy)
    ln -sfn "${1##*/}" "$UNITS_FOLDER/healthy.new"
    mv -fT "$UNITS_FOLDER/healthy.new" "$UNITS_FOLDER/healthy"
    remove_units "$1"
    remove_files "$1"
    ;;
  restore)
    if [ -e "$UNITS_FOLDER/healthy" ]; then
      healthy=$UNITS_FOLDER/$(readlink "$UNITS_FOLDER/healthy")
      install_units "$healthy"
      start_units $(cd "$healthy" && ls -- *.service)
      remove_units "$healthy"
    else
      remove_units
    fi
    ;;
  remove)
    remove_units
    remove_files
    rm -f "$UNITS_FOLDER/healthy" "$UNITS_FOLDER/healthy.new"
    for folder in "$UNITS_FOLDER" "${UNITS_FOLDER%/*}" "$UNITS_PROGRAMS"; do
      [ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty "$folder"
    done
    ;;
esac
