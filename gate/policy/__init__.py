"""YAML in, a checked Policy out. Every refusal is a PolicyError that names its line.

DESIGN section 3 is the format; docs/policy.md describes it for users; schemas/policy.schema.json for editors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from msgspec.structs import replace

from ..disk import is_there, opened
from ..errors import PolicyError
from ..model import Policy
from . import _growth
from ._build import build
from ._problems import Problems, suggest
from ._profiles import NO_PROFILE as NO_PROFILE, alone, merged
from ._tables import TOP
from ._yaml import MAX_BYTES as MAX_BYTES, plain, read

NAMES = ("slo.yaml", ".slo-gate.yaml", ".github/slo.yaml")  # where a policy is looked for, in this order
_PRESETS_FOLDER = Path(__file__).parent.parent / "presets"
PROVABLE = (  # rules about the benchmark that some clients write nothing about
    "workload.input_tokens",
    "workload.output_tokens",
    "evidence.prompts",
)
PRESETS = (
    *("chat", "chat-70b", "chat-enterprise", "voice", "agent", "code-completion", "batch"),
    *("mlperf-deepseek-r1-interactive", "mlperf-deepseek-r1-server", "mlperf-gpt-oss-120b-server"),
    *("mlperf-llama2-70b-interactive", "mlperf-llama2-70b-server"),
    *("mlperf-llama3.1-405b-interactive", "mlperf-llama3.1-405b-server"),
    *("mlperf-llama3.1-8b-interactive", "mlperf-llama3.1-8b-server", "mlperf-mixtral-8x7b-server"),
)
_START = "write one with `slo-gate init --for chat`, or take a preset: `slo-gate check RESULTS --preset chat`"


def load(path: str, *, profile: str | None = None) -> Policy:
    """The policy in a file, with a profile applied. Raises PolicyError."""
    return parse(content(path), path, profile=profile)


def content(path: str) -> bytes:
    """The bytes of a policy file, one more than allowed at most. Raises PolicyError."""
    try:
        with opened(path) as file:
            return file.read(MAX_BYTES + 1)  # one byte more shows that it is too large
    except FileNotFoundError:
        raise PolicyError("no such policy file", path, _START) from None
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror or error}", path, "check the path") from None


def parse(data: bytes, path: str, *, profile: str | None = None) -> Policy:
    """The policy in `data`; `path` is what messages and the report call it. Raises PolicyError.

    Without `profile` its default_profile applies, else the policy as it stands; when it has several profiles
    and no default, one must be named. `none` is the policy as it stands.
    Every profile is checked, named or not, so that a broken one shows before it is needed.
    """
    policies = versions(data, path)
    base = policies.pop(None)
    return _chosen(base, {name: one for name, one in policies.items() if name is not None}, profile)


def versions(data: bytes, path: str) -> dict[str | None, Policy]:
    """The policy as it stands, under None, and with each of its profiles, by name. Raises PolicyError."""
    origin, problems = (path, hashlib.sha256(data).hexdigest()), Problems(path)
    root = read(data, path)
    keys = root.entries or {}
    if len(keys) > len(TOP.keys) and not keys.keys() & TOP.keys.keys():
        why = f"is no policy: none of its {len(keys):,} keys is one of a policy"
        raise PolicyError(why, path, "check the path: results are named without --policy")
    base = build(alone(root), origin, problems)
    policies: dict[str | None, Policy | None] = {None: base}
    for name, tree in merged(root, problems).items():
        problems.context = f"with profile {name}: "
        policies[name] = build(tree, origin, problems, base, name)
        problems.context = ""
    if base and base.default_profile:
        named = ((keys["profiles"].entries if "profiles" in keys else None) or {}).keys()
        if base.default_profile not in (NO_PROFILE, *named):
            message = f'default_profile names "{base.default_profile}", which is no profile of this policy'
            problems.add(keys["default_profile"].line, message, suggest(base.default_profile, named))
    problems.check()
    names = tuple(name for name in policies if name)
    return {name: replace(policy, profiles=names) for name, policy in policies.items() if policy}


def _chosen(base: Policy, policies: dict[str, Policy], profile: str | None) -> Policy:
    names = ", ".join(policies)
    profile = profile or base.default_profile
    if profile is None and len(policies) > 1:
        message = f"has {len(policies)} profiles and none is named: {names}"
        hint = (
            f"name one, such as `--profile {next(iter(policies))}`, or add `default_profile:` to the policy"
        )
        raise PolicyError(message, base.path, hint)
    if profile in (None, NO_PROFILE):
        return base
    if profile in policies:
        return policies[profile]
    if not policies:
        raise PolicyError(f'has no profiles, so no "{profile}"', base.path, "leave out `--profile`")
    raise PolicyError(f'has no profile "{profile}": {names}', base.path, suggest(profile, policies))


def document(data: bytes, path: str) -> object:
    """The policy file as plain Python values, for its published schema. Raises PolicyError."""
    return plain(read(data, path))


def preset(name: str, *, profile: str | None = None) -> Policy:
    """An embedded policy. Raises PolicyError for an unknown name, with the near match."""
    return parse(preset_text(name).encode(), f"preset:{name}", profile=profile)


def preset_text(name: str) -> str:
    """The YAML of an embedded policy, comments and all. Raises PolicyError for an unknown name."""
    if name not in PRESETS:
        raise PolicyError(f'there is no preset "{name}"', "", suggest(name, PRESETS))
    return (_PRESETS_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def growth(limit: str, metrics: Sequence[str]) -> Policy:
    """The built-in policy of `check --max-growth`: how much these metrics may grow. Raises ValueError."""
    policy = parse(_growth.text(limit, metrics).encode(), _growth.PATH)
    return _growth.noted(policy, limit, metrics)


def unproven(policy: Policy, rules: Sequence[str]) -> Policy:
    """The policy with these of PROVABLE marked `unproven`, which its notes say. Raises PolicyError."""
    there = [one.id for one in policy.objectives if one.id in PROVABLE]
    for name in rules:
        if name not in there:
            hint = f"only {' or '.join(there)} can" if there else "leave out `--unproven`"
            message = f'has no rule "{name}" that can be left unproven'
            raise PolicyError(message, policy.path, hint)
    if not rules:
        return policy
    objectives = [replace(one, unproven=one.id in rules) for one in policy.objectives]
    why = "where no row shows it: the benchmark may be another than the promised one"
    note = f"--unproven keeps from blocking, by name, {', '.join(dict.fromkeys(rules))}, {why}"
    return replace(policy, objectives=tuple(objectives), notes=(*policy.notes, note))


def find(folder: str = ".", results: Sequence[str] = ()) -> str:
    """The policy file of a folder. Raises PolicyError where there is none: `results` may start one."""
    for name in NAMES:
        path = Path(folder) / name
        if path.is_symlink() or is_there(path):  # also what cannot be read: another one must not stand in
            return str(path)
    where = "" if folder == "." else folder
    hint, there = _START, [quote(one) for one in results if one != "-" and Path(one).exists()]
    if there:
        made = " ".join(f"--from {one}" for one in there)
        hint = hint.replace("--for chat", f"--for chat {made}").replace("RESULTS", " ".join(there))
    raise PolicyError(f"no policy found: no {', '.join(NAMES)}", where, hint)
