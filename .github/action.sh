#!/usr/bin/env bash
# The one step of action.yml: a private environment with slo-gate in it, then action.py.
# Inputs arrive as environment variables only, so none of them is ever parsed as shell.
set -euo pipefail
token="${SLO_GATE_TOKEN:-}"
unset SLO_GATE_TOKEN # nothing that is installed or judged sees it

# Where there is no Python: uv, which brings one. Checksums from its release page.
uv_version=0.11.12
uv_sum() {
  case "$1" in
    x86_64-unknown-linux-musl) echo 591a7557f5ba7e51565f338dd4c50cebc12820ec2ebb8403a4304685f8d53ab9 ;;
    aarch64-unknown-linux-musl) echo b70e87f15f12d750d218042c4ed36e41de0757eab249d332ee2e242e4174b5d5 ;;
    x86_64-apple-darwin) echo 32fb217e6181384bf6534b31adcc66cd552eff98643c4bb35832be8552486912 ;;
    aarch64-apple-darwin) echo bb7c6ef869ec00cd1452f4884acf23d00b153c356ba9197ae99a1bc1ceadb7f3 ;;
  esac
}

inert() { # text on one line, with nothing in it that a runner or a terminal obeys
  local text="${1//[[:cntrl:]]/ }" pair='##' apart='# #'
  while [[ $text == *"$pair"* ]]; do text="${text//"$pair"/$apart}"; done
  printf '%s\n' "$text"
}

stop() { # message, hint: nothing was judged
  echo "error: $(inert "$1")" >&2
  echo "hint: $(inert "$2")" >&2
  printf 'verdict=error\nexit-code=2\n' >>"${GITHUB_OUTPUT:-/dev/null}" || true
  echo "::error title=slo-gate::Nothing was judged; the log says why."
  { # inside a code span nothing is a mention, a link or HTML
    printf '### ERROR (exit 2, no verdict): nothing was judged\n\n'
    local name text
    for name in What Next; do
      text="$(inert "$1")"
      printf -- '- **%s:** `%s`\n' "$name" "${text//\`/\'}"
      shift
    done
  } >>"${GITHUB_STEP_SUMMARY:-/dev/null}" || true
  exit 2
}
trap 'stop "line $LINENO of action.sh failed" "the log says why"' ERR # an exit code of 1 would be a verdict

trim() { # $1 without white space around it
  local text="$1"
  text="${text#"${text%%[![:space:]]*}"}"
  printf '%s' "${text%"${text##*[![:space:]]}"}"
}

slashes() { # the path $1 as this shell has it
  if command -v cygpath >/dev/null; then cygpath -u "$1"; else printf '%s\n' "$1"; fi
}

link_in() { # the first part of the path $1, below the workspace, that is a link
  local rest part='' inside=''
  rest="$(slashes "$1")"
  case "$rest" in /*) ;; *) rest="$PWD/$rest" ;; esac
  while [ -n "$rest" ]; do
    part="${part%/}/${rest%%/*}"
    if [ -n "$inside" ] && [ -L "$part" ]; then
      printf '%s\n' "$part"
      return
    fi
    if [ "$part" -ef "$workspace" ]; then inside=yes; fi
    case "$rest" in */*) rest="${rest#*/}" ;; *) rest='' ;; esac
  done
}

no_links() { # a change may have made one where a report is to go
  local name path link
  for name in $reports; do
    path="SLO_GATE_$name"
    path="${!path}"
    link="${path:+$(link_in "$path")}"
    if [ -n "$link" ]; then
      stop "a report is to go to $path, and ${link#"$workspace"/} is a link" 'a report is written through no link: name another file, or remove the link'
    fi
  done
}

is_read() { # whether the file $1 is, or may be, one that is judged, and no report of an earlier run
  local line found above
  while IFS= read -r line; do
    line="$(trim "$line")"
    # shellcheck disable=SC2053 # a glob; ** crosses folders, and may cross none
    if [[ -n $line && $1 == $line || $line == *'**'* && $PWD/$1 == */$line ]]; then return 0; fi
    while IFS= read -r found; do
      above="$PWD/$1"
      case "$1" in /*) above="$1" ;; esac
      while [ -n "$above" ]; do # a folder that is read holds it
        if [ "$above" -ef "$found" ]; then return 0; fi
        above="${above%/*}"
      done
    done < <(compgen -G "$line")
  done <<<"${SLO_GATE_POLICY:-slo.yaml}"$'\n.slo-gate.yaml\n.github/slo.yaml\n'"${SLO_GATE_RESULTS:-}"$'\n'"${SLO_GATE_BASELINE:-}"
  return 1
}

new_enough() {
  "$1" -I -c 'import sys; raise SystemExit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
  local candidate
  if [ -n "$SLO_GATE_PYTHON" ]; then
    new_enough "$SLO_GATE_PYTHON" || return 1
    echo "$SLO_GATE_PYTHON"
    return
  fi
  for candidate in python3 python \
    "${RUNNER_TOOL_CACHE:-/nowhere}"/Python/3.*/*/bin/python3 "${RUNNER_TOOL_CACHE:-/nowhere}"/Python/3.*/*/python.exe; do
    if new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

fetch_uv() { # into the folder $1
  local system file
  system="$(uname -m)-$(uname -s)"
  case "$system" in
    x86_64-Linux) file=x86_64-unknown-linux-musl ;;
    aarch64-Linux) file=aarch64-unknown-linux-musl ;;
    x86_64-Darwin) file=x86_64-apple-darwin ;;
    arm64-Darwin) file=aarch64-apple-darwin ;;
    *) return 1 ;;
  esac
  local base="${SLO_GATE_UV_MIRROR:-https://github.com/astral-sh/uv/releases/download}"
  echo "no Python here: fetching uv $uv_version, which brings one" >&2
  curl -fsSL --retry 3 -o "$1/uv.tar.gz" "$base/$uv_version/uv-$file.tar.gz" || return 1
  if command -v sha256sum >/dev/null; then
    echo "$(uv_sum "$file")  $1/uv.tar.gz" | sha256sum --check --status || return 1
  else
    echo "$(uv_sum "$file")  $1/uv.tar.gz" | shasum -a 256 --check --status || return 1
  fi
  tar -xzf "$1/uv.tar.gz" -C "$1" --strip-components 1
  echo "$1/uv"
}

private() { # the Python inside the environment $1
  if [ -x "$1/bin/python" ]; then echo "$1/bin/python"; else echo "$1/Scripts/python.exe"; fi
}

reports='REPORT_JSON JUNIT MARKDOWN HTML SARIF'
workspace="$(slashes "${GITHUB_WORKSPACE:-$PWD}")"
if [ -n "${SLO_GATE_WORKING_DIRECTORY:-}" ]; then
  cd -- "$SLO_GATE_WORKING_DIRECTORY" 2>/dev/null ||
    stop "working-directory is \"$SLO_GATE_WORKING_DIRECTORY\", which is no folder" 'name one from the workspace'
fi

# Each use in a job has its own folder: the runner empties RUNNER_TEMP before a job.
base="${RUNNER_TEMP:-$(mktemp -d)}/slo-gate"
number=1
mkdir -p "$base" 2>/dev/null || true
until mkdir "$base/use-$number" 2>/dev/null; do
  if [ ! -d "$base/use-$number" ]; then stop "no folder can be made in ${base%/*}" 'free some space, or set RUNNER_TEMP to a folder'; fi
  number=$((number + 1))
done
export SLO_GATE_USE="$base/use-$number"
for name in $reports; do
  variable="SLO_GATE_$name"
  path="$(trim "${!variable:-}")"
  if [ "$name" = REPORT_JSON ]; then path="${path:-slo-gate-report/report.json}"; fi
  case "$path" in *[[:cntrl:]]*) stop "a report path holds control characters: $path" 'name one file' ;; esac
  if [ "$number" -gt 1 ]; then
    case "${path#./}" in slo-gate-report/*) path="slo-gate-report-$number/${path#*slo-gate-report/}" ;; esac
  fi
  export "$variable=$path"
done
no_links
left=''
for name in $reports; do # those of an earlier run go: whatever happens now, nobody reads them as of this one
  variable="SLO_GATE_$name"
  path="${!variable}"
  if [ -n "$path" ] && ! is_read "$path" && ! rm -f -- "$path" 2>/dev/null; then left="$path"; fi
done
if [ -n "$left" ]; then stop "there is no room for a report at $left" 'name a file, not a folder'; fi

case "$SLO_GATE_EXTRA" in
  *[!a-z,-]*) stop 'extra holds more than names and commas' 'name the extras of pyproject.toml, like: report' ;;
esac
extra="${SLO_GATE_EXTRA:+[$SLO_GATE_EXTRA]}"
version="${SLO_GATE_VERSION:-}"
case "$version" in
  '') what="$SLO_GATE_SOURCE$extra" ;;
  -* | *[!A-Za-z0-9._+:/@~=-]*) stop 'version is no version, file, folder or address' 'write it like 1.2.0' ;;
  git+https://* | https://*) what="slo-gate$extra @ $version" ;;
  [0-9]*) what="slo-gate$extra==$version" ;;
  *)
    if [ ! -e "$version" ]; then stop "version is \"$version\", which is no file" 'write it like 1.2.0, or name a wheel'; fi
    what="$(cd "$(dirname "$version")" && pwd)/${version##*/}$extra"
    ;;
esac
venv="$base/$(printf '%s|%s' "$what" "$SLO_GATE_PYTHON" | cksum | tr ' ' '-')"
hint='behind a firewall set PIP_INDEX_URL, or PIP_NO_INDEX and PIP_FIND_LINKS with a folder of wheels'

if [ ! -f "$venv/ready" ]; then # a second use in this job has it already
  rm -rf -- "$venv"
  if python="$(find_python)"; then
    if "$python" -I -m venv "$venv" >"$base/venv.log" 2>&1; then
      pip=("$(private "$venv")" -I -m pip)
    else # Debian ships venv without ensurepip: there the machine's own pip installs into it
      rm -rf -- "$venv"
      "$python" -I -m venv --without-pip "$venv" || stop 'no environment can be made' "$(tail -n 1 "$base/venv.log")"
      pip=("$python" -I -m pip --python "$(private "$venv")")
    fi
    # Where the job's other steps are to install is not where this goes.
    env -u PIP_USER -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT -u PIP_REQUIRE_VIRTUALENV -u PIP_DRY_RUN \
      "${pip[@]}" install --no-user --quiet --disable-pip-version-check "$what" || stop 'slo-gate cannot be installed' "$hint"
  elif [ -n "$SLO_GATE_PYTHON" ]; then
    named="${SLO_GATE_PYTHON//[^[:alnum:]._\/ -]/?}" # nothing that a runner would obey
    stop "python is \"$named\", which is no Python 3.10 or newer" 'leave the input out, or name another'
  else
    uv="$(command -v uv || fetch_uv "$base")" ||
      stop 'there is no Python 3.10 or newer, and uv cannot be fetched' 'use actions/setup-python before this step'
    "$uv" venv --quiet --no-config --python '>=3.10' "$venv" && "$uv" pip install --quiet --no-config \
      --python "$(private "$venv")" "$what" || stop 'slo-gate cannot be installed with uv' 'set UV_INDEX_URL'
  fi
  touch "$venv/ready"
fi
no_links # an installation takes a while
SLO_GATE_TOKEN="$token" exec "$(private "$venv")" -I "$SLO_GATE_SOURCE/.github/action.py"
