#!/usr/bin/env bash
# `make demo`: the same policy on a good build and on a slower one.
set -u
gate="$1"
cd "$(dirname "$0")" || exit 1
case "$gate" in /*) ;; *) gate="../$gate" ;; esac
for build in good regressed; do
  echo "\$ slo-gate check chat/$build --policy chat/slo.yaml"
  "$gate" check "chat/$build" --policy chat/slo.yaml
  code=$?
  printf 'exit code: %s\n\n' "$code"
  case "$build:$code" in good:0 | regressed:1) ;; *) echo "this is not what the demo shows" >&2 && exit 1 ;; esac
done
