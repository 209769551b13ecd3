#!/usr/bin/env bash
# The one step of action.yml: a private environment, one `slo-gate check`, summary and outputs.
# Inputs arrive as environment variables only, so none of them is ever parsed as shell.
set -euo pipefail

venv="${RUNNER_TEMP:-/tmp}/slo-gate-venv"
if [ ! -x "$venv/bin/slo-gate" ]; then
  "$SLO_GATE_PYTHON" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$SLO_GATE_SOURCE"
fi

args=()
paths=()
while IFS= read -r line; do
  line="${line#"${line%%[![:space:]]*}"}"
  line="${line%"${line##*[![:space:]]}"}"
  [ -z "$line" ] || paths+=("$line")
done <<<"$SLO_GATE_RESULTS"
while IFS= read -r line; do
  [ -z "${line//[[:space:]]/}" ] || args+=("--set=$line")
done <<<"$SLO_GATE_SET"
[ -z "$SLO_GATE_POLICY" ] || args+=("--policy=$SLO_GATE_POLICY")
[ -z "$SLO_GATE_PRESET" ] || args+=("--preset=$SLO_GATE_PRESET")
[ -z "$SLO_GATE_PROFILE" ] || args+=("--profile=$SLO_GATE_PROFILE")
[ -z "$SLO_GATE_TOOL" ] || args+=("--tool=$SLO_GATE_TOOL")
case "$SLO_GATE_REPORT_ONLY" in
  true) args+=(--report-only) ;;
  false | "") ;;
  *)
    echo "error: report-only is \"$SLO_GATE_REPORT_ONLY\"; write true or false" >&2
    exit 2
    ;;
esac

mkdir -p "$SLO_GATE_OUTPUT_DIR"
json="$SLO_GATE_OUTPUT_DIR/report.json"
junit="$SLO_GATE_OUTPUT_DIR/junit.xml"
markdown="$SLO_GATE_OUTPUT_DIR/report.md"
rm -f -- "$json" "$junit" "$markdown" # a stale report must never be read as this run's

code=0
"$venv/bin/slo-gate" check "${args[@]}" "--fail-on=$SLO_GATE_FAIL_ON" \
  "--json=$json" "--junit=$junit" "--markdown=$markdown" -- ${paths[@]+"${paths[@]}"} || code=$?

[ -z "${GITHUB_STEP_SUMMARY:-}" ] || [ ! -f "$markdown" ] || cat -- "$markdown" >>"$GITHUB_STEP_SUMMARY"
"$venv/bin/python" "$SLO_GATE_SOURCE/.github/outputs.py" "$code" "$json" "$junit" "$markdown" \
  >>"${GITHUB_OUTPUT:-/dev/null}"
exit "$code"
