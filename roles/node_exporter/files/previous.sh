# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
#
# The earlier state of the files that a run replaces. It stays until the service answers, also if the run is interrupted.
#   keep FILE...    keep the files, if no interrupted run has kept them, and print the record: "file NAME" for each, "absent NAME" for those that do
#                   not exist, and PREVIOUS_STATE
#   restore         make all files of the record as they were
#   forget FILE...  remove what is kept, and the folder PREVIOUS_SCRATCH
# PREVIOUS_RECORD is the file of the record. It is written last and removed first, so the kept files belong together as long as it exists.
set -eu

action=$1
shift
case $action in
  keep)
    if [ ! -f "$PREVIOUS_RECORD" ]; then
      for file in "$@"; do
        kept=$file.kube-scheduling-previous
        rm -f "$kept"
        if [ -f "$file" ]; then
          # A link needs no disk space. Ansible replaces a file, and does not write into it.
          ln "$file" "$kept"
          echo "file $file"
        else
          echo "absent $file"
        fi
      done > "$PREVIOUS_RECORD.new"
      echo "$PREVIOUS_STATE" >> "$PREVIOUS_RECORD.new"
      mv "$PREVIOUS_RECORD.new" "$PREVIOUS_RECORD"
    fi
    cat "$PREVIOUS_RECORD"
    ;;
  restore)
    while read -r word file; do
      kept=$file.kube-scheduling-previous
      if [ "$word" = absent ]; then
        rm -f "$file"
      elif [ "$word" = file ] && [ -f "$kept" ] && ! [ "$kept" -ef "$file" ]; then
        ln -f "$kept" "$file"
      fi
    done < "$PREVIOUS_RECORD"
    ;;
  forget)
    files=
    if [ -f "$PREVIOUS_RECORD" ]; then
      # With other folders in the variables, an interrupted run has kept other files.
      files=$(sed -n -e 's/^file //p' "$PREVIOUS_RECORD")
    fi
    rm -f "$PREVIOUS_RECORD" "$PREVIOUS_RECORD.new"
    for file in $files "$@"; do
      rm -f "$file.kube-scheduling-previous"
    done
    rm -rf "$PREVIOUS_SCRATCH"
    ;;
esac
