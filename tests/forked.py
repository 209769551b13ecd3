"""`python -m gate` as a fork of a process that has imported it: a tenth of what an interpreter costs.

Every run is a process of its own, so its exit code, streams, working folder, environment and signals are
real, and what it leaves behind ends with it. What a fork does not show is an interpreter's start and end:
tests/test_forked.py holds the two side by side.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
# Read by an interpreter that starts, or by a library that is loaded: a fork cannot follow another value.
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "OPENBLAS_", "OMP_")
# What commands import late.
LATER = ("jinja2", "jsonschema", "junit_xml", "msgspec", "numpy", "rich.console", "urllib3", "yaml")
NUMBER = struct.Struct("=i")  # a process, then its exit code


class Forks:
    """The process that forks; it is started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pool = ThreadPoolExecutor(64)

    def close(self) -> None:
        """It ends when nobody can ask it any more."""
        self._pool.shutdown()
        if self._process is not None:
            self._socket.close()
            self._process.wait(timeout=20)

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        input: str | None = None,
        stdout: IO[bytes] | None = None,
        timeout_s: float,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run(..., encoding="utf-8")`: stdin is empty, the others are captured, by default."""
        with self._lock:
            if self._process is None:
                self._start(env)
        command = [sys.executable, "-m", "gate", *words]
        if _at_start(env) != self._env:
            return subprocess.run(
                command, cwd=cwd, env=env, input=input or "", stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE, encoding="utf-8", timeout=timeout_s,
            )  # fmt: skip
        stdin, out, err, state = (os.pipe() for _ in range(4))
        if stdout is not None:
            os.close(out[1])
            out = (out[0], os.dup(stdout.fileno()))
        with tempfile.TemporaryFile() as asked:
            asked.write(json.dumps([words, str(cwd), dict(env)]).encode())
            asked.seek(0)
            given = [asked.fileno(), state[1], stdin[0], out[1], err[1]]
            socket.send_fds(self._socket, [b"?"], given)
        for one in given[1:]:
            os.close(one)
        said = [self._pool.submit(_read, out[0]), self._pool.submit(_read, err[0])]
        with suppress(BrokenPipeError), os.fdopen(stdin[1], "wb") as pipe:
            pipe.write((input or "").encode())
        with os.fdopen(state[0], "rb", buffering=0) as told:
            process = NUMBER.unpack(told.read(NUMBER.size))[0]
            if not select.select([told], [], [], timeout_s)[0]:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout_s)
            code = NUMBER.unpack(told.read(NUMBER.size))[0]
        return subprocess.CompletedProcess(command, code, *(one.result(timeout_s) for one in said))

    def _start(self, env: Mapping[str, str]) -> None:
        self._env = _at_start(env)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env={**env, "OPENBLAS_NUM_THREADS": "1"},  # threads do not outlive a fork
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )


@cache
def forks() -> Forks:
    """The one of this process, which ends with it."""
    started = Forks()
    atexit.register(started.close)
    return started


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def _read(descriptor: int) -> str:
    """To its end, with the line ends of every system as one."""
    with os.fdopen(descriptor, encoding="utf-8") as file:
        return file.read()


def _import() -> None:
    """All that a command may import; the attribute `run` of gate.cli stays the function of that name."""
    import gate.cli

    run = gate.cli.run
    for module in pkgutil.walk_packages(gate.__path__, "gate."):
        importlib.import_module(module.name)
    gate.cli.run = run
    for name in LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page


def _serve(descriptor: int) -> tuple[int, ...] | None:
    """Fork for every request. Returns in each fork the descriptors it was given, and None at the end."""
    waiting: dict[int, int] = {}  # process -> who is told how it ended
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asking = socket.socket(fileno=descriptor)
    while True:
        ready = select.select([asking, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            while waiting:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    break
                told = waiting.pop(process)
                with suppress(BrokenPipeError):
                    os.write(told, NUMBER.pack(os.waitstatus_to_exitcode(status)))
                os.close(told)
        if asking in ready:
            asked, given, _, _ = socket.recv_fds(asking, 1, 5)
            if not asked:
                return None
            process = os.fork()
            if not process:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                asking.detach()
                return tuple(given)
            os.write(given[1], NUMBER.pack(process))
            waiting[process] = given[1]
            for one in (given[0], *given[2:]):
                os.close(one)


def _become(asked: int, *streams: int) -> list[str]:
    """The process that was asked for; returns its words."""
    with os.fdopen(asked, "rb") as file:
        words, folder, env = json.load(file)
    for number, (stream, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"), strict=True)):
        os.dup2(stream, number)
        old, buffering = getattr(sys, name), 1 if name == "stderr" else -1
        new = open(number, old.mode, buffering, old.encoding, old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
    os.closerange(3, 256)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, signal.default_int_handler if name == signal.SIGINT else signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    return words


def main() -> None:
    """Serve, and in every fork be `python -m gate`."""
    _import()
    given = _serve(int(sys.argv[1]))
    if given is None:
        return
    asked, _, *streams = given
    from gate import __main__ as program

    sys.argv = [str(program.__file__), *_become(asked, *streams)]
    code = 1
    try:
        program.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:  # as an interpreter does: what main lets through is a fault
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # an interpreter that ends tidies for longer than most commands take


if __name__ == "__main__":
    main()
