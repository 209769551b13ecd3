#!/usr/bin/env bash
# `make demo`: the same policy on a good build and on a slower one.
set -u
gate="$1"
cd "$(dirname "$0")" || exit 1
case "$gate" in /*) ;; *) gate="../$gate" ;; esac
for build in good regressed; do
  options=(--policy chat/slo.yaml)
  [ "$build" = good ] && options+=(--quiet) # a pass is two lines: both builds fit on one screen
  echo "\$ slo-gate check chat/$build ${options[*]}"
  "$gate" check "chat/$build" "${options[@]}"
  code=$?
  printf 'exit code: %s\n\n' "$code"
  case "$build:$code" in good:0 | regressed:1) ;; *) echo "this is not what the demo shows" >&2 && exit 1 ;; esac
done
