# SPDX-License-Identifier: Apache-2.0
"""A federation on Flower's simulation engine: set up in a temporary folder, run, and taken down.

The engine is a SuperLink that we start ourselves, on this machine only. Everything of it, Ray's
sessions included, lives in one temporary folder that nobody else can read, and goes with it; if we are
killed, the next simulation takes it away. Flower
asks nobody who submits a run for a name: while a simulation runs, other users of the same machine could
reach its port. Where such users are not trusted, rehearse in process.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from epsilens._processes import PROC, Process, running, send
from epsilens._scratch import announce_scratch
from epsilens._types import Progress
from epsilens._validate import require_extra
from epsilens.errors import (
    BudgetExceededError,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
)
from epsilens.federated.flower import FAILURE, SIMULATED_SITES
from epsilens.federated.flower.services import (
    APP_FILES,
    Service,
    environment,
    free_port,
    last_words,
)
from epsilens.federated.parties import Traffic
from epsilens.federated.rehearsal import Outcome, Rehearsal
from epsilens.federated.site_store import RawFile, create_site_store
from epsilens.federated.valuing import read_valuation
from epsilens.federated.written import read_ledger, read_version

# --- Processes that were started for a simulation, and theirs: found by their ids and ended for sure ---

_SECONDS_BETWEEN_SIGNALS = 0.05


class ProcessTree:
    """A process that we started, and all that came from it.

    Parameters
    ----------
    root : subprocess.Popen
        Started by us.
    mark : str
        `NAME=VALUE` in its environment, which all its children inherit: one that has lost its
        parents is known by it.
    """

    def __init__(self, root: subprocess.Popen[bytes], mark: str) -> None:
        self._root = root
        self._mark = mark.encode()
        self._known: dict[int, Process] = {}
        self._strangers: set[Process] = set()
        self.note()

    def note(self) -> None:
        """Look who is there now, while parents still are: later it may be too late."""
        now = {process.pid: process for process in running()}
        self._known = {
            pid: process
            for pid, process in self._known.items()
            if pid in now and now[pid].began == process.began
        }
        ours = {self._root.pid, *self._known}
        found = True
        while found:
            found = False
            for pid, process in now.items():
                if pid not in ours and (process.parent in ours or self._is_marked(process)):
                    ours.add(pid)
                    found = True
        self._known |= {pid: now[pid] for pid in ours if pid in now}
        self._known.pop(os.getpid(), None)

    def _is_marked(self, process: Process) -> bool:
        if process in self._strangers:
            return False
        try:
            environment = (PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            environment = b""
        marked = self._mark in environment.split(b"\0")
        if environment and not marked:
            self._strangers.add(process)
        return marked

    @property
    def running(self) -> list[int]:
        """The ids of all that run now."""
        self.note()
        return sorted(self._known)

    def end(self, *, seconds: float = 2.0) -> None:
        """Ask all to end, and after some seconds make them; return when nobody is left.

        Parameters
        ----------
        seconds : float
            How long those have who were asked.
        """
        until = time.monotonic() + seconds
        asked: set[int] = set()
        while self.running:
            number = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
            for pid in self._known:
                if number == signal.SIGKILL or pid not in asked:
                    send(pid, number)
                    asked.add(pid)
            self._root.poll()
            time.sleep(_SECONDS_BETWEEN_SIGNALS)
        self._root.wait()


# --- A federation on Flower's simulation engine: set up in a temporary folder, run, and taken down ---

SECONDS_TO_START = 180.0
"""Within which the engine must run; it takes 8 to 15 seconds on a small machine."""
SECONDS_TO_ANSWER = 300.0
"""Within which every site must have answered a message."""

_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (BudgetExceededError, EstimateNotTrustworthyError, MissingExtraError)
}
_MARK = "EPSILENS_SIMULATION"
_LOG = "engine.log"
_PREFIX, _CLAIM = "epsilens-", "simulation.lock"
_CLAIM_TEXT = b"A simulation of epsilens locks this file; what its folder holds goes with it.\n"
"""By which a folder is known as one that may be taken away: anybody may choose its name."""
_ROOM_FOR_SOCKETS = 30
"""Characters of a temporary folder's path: those of Ray's sockets in it must stay below 107."""
_SECONDS_BETWEEN_LOOKS = 0.1

_CONFIG = """\
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""


def require_flower() -> None:
    """Refuse, before any work, to go on without the extra.

    Raises
    ------
    MissingExtraError
    """
    require_extra(
        "federated", "a federation on Flower", "flwr", "ray", otherwise=", or use `--in-process`"
    )
    if sys.platform == "win32":
        raise InputError(
            "the simulation on Flower runs on Linux and macOS. Use `--in-process` here: the numbers "
            "are the same."
        )


def simulate(rehearsal: Rehearsal, *, progress: Progress | None = None) -> Outcome:
    """Carry a federation out on Flower's simulation engine: one node a site, real messages.

    Parameters
    ----------
    rehearsal : Rehearsal
    progress : callable, optional

    Returns
    -------
    Outcome
        The same as `rehearse` gives, and what Flower has carried.

    Raises
    ------
    MissingExtraError
        If Flower is not installed.
    InputError
        If a site refuses, or the engine does not start.
    """
    require_flower()
    with _temporary_folder() as folder:
        _set_up(folder, rehearsal)
        with _engine(folder, n_sites=len(rehearsal.tables)) as tree:
            result = _wait(folder, tree, total=len(rehearsal.operations), progress=progress)
    return _outcome(result)


# --- The folder ---


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Give a folder that goes with the block; those of runs that were killed go before it."""
    base = _base()
    _sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    announce_scratch(folder)
    claim: int | None = None
    try:
        with suppress(OSError):  # where files cannot be locked, nobody is sure of it later
            claim = _claim(folder)
        yield folder
    finally:
        _take_away(folder)
        if claim is not None:
            os.close(claim)


def _base() -> Path:
    base = tempfile.gettempdir()
    if len(base) > _ROOM_FOR_SOCKETS and os.access("/tmp", os.W_OK):  # noqa: S108
        base = "/tmp"  # noqa: S108
    return Path(base)


def _claim(folder: Path) -> int:
    """Lock a file in a folder for as long as this process lives; it is seen only once it is locked."""
    import fcntl

    part = folder / f"{_CLAIM}.part"
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, _CLAIM_TEXT)
        part.rename(folder / _CLAIM)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(base: Path) -> None:
    """Take away folders of our own whose process was killed: they hold the records of all sites."""
    import fcntl

    for folder in base.glob(f"{_PREFIX}*"):
        try:
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            claim = os.open(folder / _CLAIM, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # no folder of a simulation
        try:
            if _is_ours(claim):
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _take_away(folder)
        except OSError:
            pass  # its simulation goes on
        finally:
            os.close(claim)


def _is_ours(claim: int) -> bool:
    found = os.fstat(claim)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        return False
    return os.read(claim, len(_CLAIM_TEXT) + 1) == _CLAIM_TEXT


def _take_away(folder: Path) -> None:
    # The claim last: killed in between, the next simulation goes on with it.
    with suppress(FileNotFoundError):  # another one was faster
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _set_up(folder: Path, rehearsal: Rehearsal) -> None:
    from epsilens.data import write_table
    from epsilens.federated.flower.server_app import save_records, write_json

    for number, table in enumerate(rehearsal.tables):
        place = folder / "sites" / f"site-{number}"
        place.mkdir(mode=0o700, parents=True)
        write_table(table, place / "data.parquet")
        create_site_store(place, rehearsal.site(number), RawFile.at(place / "data.parquet"))
        rehearsal.answer_limits.write(place)
    if rehearsal.test is not None:
        save_records(folder / "test.npz", rehearsal.test)
    plan = {
        "schema": rehearsal.schema.to_dict(),
        "operations": [step.to_dict() for step in rehearsal.operations],
        "n_sites": len(rehearsal.tables),
        "regularisation": rehearsal.regularisation,
        "test": None if rehearsal.test is None else str(folder / "test.npz"),
        "timeout": SECONDS_TO_ANSWER,
        "patience": SECONDS_TO_START,
        "progress": str(folder / "progress.json"),
        "result": str(folder / "result.json"),
        "secure_aggregation": rehearsal.secure_aggregation,
    }
    write_json(folder / "plan.json", plan)
    for name, text in APP_FILES.items():
        path = folder / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# --- The engine ---


@contextmanager
def _engine(folder: Path, *, n_sites: int) -> Iterator[ProcessTree]:
    """Run a SuperLink and our app on it; whatever happens, nothing of it is left running."""
    mark = secrets.token_hex(8)
    own = _environment(folder, mark)
    tree: ProcessTree | None = None
    try:
        port = free_port()
        command = ["--while-parent", "flower-superlink", "--insecure", "--simulation"]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        command += ["--disable-runtime-dependency-installation"]
        service = Service("launch", command, log=folder / _LOG, environment=own)
        tree = ProcessTree(service.process, f"{_MARK}={mark}")
        if not service.answers(f"http://127.0.0.1:{port}", seconds=SECONDS_TO_START):
            raise _not_started(service.log)
        _submit(folder, port, own, n_sites=n_sites)
        yield tree
    finally:
        if tree is not None:
            tree.end()


def _environment(folder: Path, mark: str) -> dict[str, str]:
    """Return the environment of the engine's processes, quiet and without any call to the outside."""
    here = str(Path(sys.executable).parent)
    found = environment(
        HOME=str(folder / "home"),
        PYTHONUSERBASE=site.getuserbase(),
        FLWR_HOME=str(folder / "home"),
        RAY_TMPDIR=str(folder / "r"),
        RAY_USAGE_STATS_ENABLED="0",
        RAY_USAGE_STATS_REPORT_URL="http://127.0.0.1:9/",
        RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
        PATH=os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
    )
    found |= {_MARK: mark, SIMULATED_SITES: str(folder / "sites")}
    # Loopback must never go through a proxy.
    found |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    found.pop("RAY_ADDRESS", None)
    for name in ("r", "home"):
        (folder / name).mkdir()
    # Without this file in its home Ray asks three cloud providers whether it runs at theirs.
    (folder / "home" / "ray_bootstrap_config.yaml").write_text("{}\n", encoding="utf-8")
    return found


def _submit(folder: Path, port: int, own: Mapping[str, str], *, n_sites: int) -> None:
    """Hand our app to the SuperLink."""
    (folder / "home" / "config.toml").write_text(_CONFIG.format(port=port), encoding="utf-8")
    # An actor takes seconds to start and a message milliseconds: few actors are faster than many.
    n_actors = max(1, min(n_sites, (os.cpu_count() or 1) // 2))
    federation = f"num-supernodes={n_sites} client-resources-num-cpus=1"
    federation += f' init-args-num-cpus={n_actors} init-args-logging-level="ERROR"'
    command = ["flwr", "run", str(folder / "app"), "here", "--federation-config", federation]
    command += ["--run-config", f"plan={json.dumps(str(folder / 'plan.json'))}"]
    log = folder / "submission.log"
    process = Service("launch", ["--while-parent", *command], log=log, environment=own).process
    try:
        process.wait(timeout=SECONDS_TO_START)
    except subprocess.TimeoutExpired:
        process.kill()
    except BaseException:
        process.kill()
        raise
    finally:
        process.wait()
    if process.returncode != 0:
        raise _not_started(log)


def _wait(
    folder: Path, tree: ProcessTree, *, total: int, progress: Progress | None
) -> dict[str, object]:
    """Return the result once it is there; meanwhile say how far the coordinator has come."""
    result, report = folder / "result.json", folder / "progress.json"
    until = time.monotonic() + SECONDS_TO_START
    coordinator: int | None = None
    looks = 0
    while not result.exists():
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        looks += 1
        if report.exists():
            said = json.loads(report.read_text(encoding="utf-8"))
            coordinator = int(said["process"])
            if progress is not None:
                progress(int(said["done"]), total, "operations")
        if looks % 10:
            continue
        running = tree.running
        ended = coordinator is not None and coordinator not in running
        late = coordinator is None and (time.monotonic() > until or not running)
        # It may have written its result just before it ended.
        if (ended or late) and not result.exists():
            raise _not_started(folder / _LOG)
    read: dict[str, object] = json.loads(result.read_text(encoding="utf-8"))
    return read


def _not_started(log: Path) -> InputError:
    return InputError(
        f"Flower's simulation engine must run to the end, but did not ({last_words(log)!r}). Try "
        "again, or use `--in-process`: the numbers are the same."
    )


def _outcome(result: dict[str, object]) -> Outcome:
    if "error" in result:
        message = str(result["message"])
        if result["error"] == FAILURE:
            raise RuntimeError(f"the coordinator failed:\n{message}")
        raise _ERRORS.get(str(result["error"]), InputError)(message)
    versions, carried = result["versions"], result["carried"]
    return Outcome(
        tuple(read_version(record) for record in versions),  # type: ignore[attr-defined]
        read_ledger(str(result["ledger"])),
        Traffic(*carried),  # type: ignore[misc]
        tuple(read_valuation(record) for record in result["valuations"]),  # type: ignore[attr-defined]
    )
