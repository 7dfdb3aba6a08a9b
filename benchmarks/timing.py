# SPDX-License-Identifier: Apache-2.0
"""Run programs of peers side by side, in turns, and compare what they took.

Every method of every library runs in a process of its own under its library's own Python, kept to as
many cores as are asked for. The turns go forwards and backwards, so that a machine that slows down
is unfair to nobody. A ratio is a geometric mean over the turns with its standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))
from exchange import Answer, read_answers  # noqa: E402

RESULTS = HERE / "results"
PEERS = HERE.parent / ".peers"
_BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Contestant:
    """One method of one library.

    Attributes
    ----------
    name : str
        How the table calls it.
    program : str
        File in `peers`, without its ending.
    method : str
        One, or several in one process, with spaces between.
    environment : str
        "own" for this Python, else a folder of `make peers`.
    n_cores : int
    """

    name: str
    program: str
    method: str
    environment: str = "own"
    n_cores: int = 1


@dataclass
class Record:
    """What a contestant did in every turn, or why it could not.

    Attributes
    ----------
    answers : list of Answer
        One a turn.
    reason : str or None
        Why it is not available.
    """

    answers: list[Answer] = field(default_factory=list)
    reason: str | None = None

    def seconds(self, clock: str = "cpu") -> np.ndarray:
        """Return the best of every turn, by "cpu" or "wall"."""
        return np.array([min(getattr(answer, f"{clock}_seconds")) for answer in self.answers])


@dataclass(frozen=True)
class Ratio:
    """How many times as long one took as another.

    Attributes
    ----------
    value : float
    standard_error : float or None
        None after a single turn.
    """

    value: float
    standard_error: float | None

    def __str__(self) -> str:
        if self.standard_error is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ± {self.standard_error:.2f}"


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Ratio:
    """Return the geometric mean of the ratios, turn by turn, and its standard error."""
    logs = np.log(np.asarray(slow, dtype=float)) - np.log(np.asarray(fast, dtype=float))
    value = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Ratio(value, None)
    return Ratio(value, float(value * logs.std(ddof=1) / np.sqrt(len(logs))))


@dataclass(frozen=True)
class Slope:
    """A power: how seconds grow with a size, from a line through the logarithms.

    Attributes
    ----------
    value : float
    standard_error : float or None
        Of the least-squares line; None with two points.
    """

    value: float
    standard_error: float | None

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2f}"
        return f"{self.value:.2f}{error}"


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> Slope:
    """Return the log-log slope of seconds against sizes."""
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds, dtype=float))
    centred = x - x.mean()
    value = float(centred @ y / (centred @ centred))
    if len(x) < 3:
        return Slope(value, None)
    rest = y - y.mean() - value * centred
    error = np.sqrt(rest @ rest / (len(x) - 2) / (centred @ centred))
    return Slope(value, float(error))


def relative_difference(values: np.ndarray, reference: np.ndarray) -> float:
    """Return the largest difference over the largest value, in the cells that were computed.

    NaN if there are none: a peer that went to NaN agrees with nobody.
    """
    both = np.isfinite(values) & np.isfinite(reference)
    if not both.any():
        return float("nan")
    return float(np.abs(values[both] - reference[both]).max() / np.abs(reference[both]).max())


def environment_of(n_cores: int, *, is_own: bool) -> dict[str, str]:
    """Return the environment of a contestant's process."""
    keep = {name: value for name, value in os.environ.items() if is_own or name != "PYTHONPATH"}
    return {**keep, **dict.fromkeys(_BLAS, str(n_cores)), "PYTHONWARNINGS": "ignore"}


def python_of(environment: str, peers: Path = PEERS) -> Path:
    """Return the Python of an environment."""
    if environment == "own":
        return Path(sys.executable)
    return peers / environment / "bin" / "python"


def versions(peers: Path = PEERS) -> dict[str, dict[str, str]]:
    """Return what `make peers` found in every environment that is there."""
    files = sorted(peers.glob("*/versions.json"))
    return {file.parent.name: json.loads(file.read_text()) for file in files}


def run(
    contestant: Contestant,
    problem: Path,
    *,
    repeats: int,
    peers: Path = PEERS,
    programs: Path = HERE / "peers",
    limit_seconds: float = 1800.0,
) -> list[Answer] | str:
    """Run a contestant once; an answer a method, or in one line why it cannot."""
    python = python_of(contestant.environment, peers)
    if not python.exists():
        return f"environment {contestant.environment!r} is not there: run `make peers`"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        command = [str(python), str(programs / f"{contestant.program}.py")]
        command += ["--problem", str(problem), "--out", str(out), "--repeats", str(repeats)]
        command += ["--methods", *contestant.method.split(), "--threads", str(contestant.n_cores)]
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=limit_seconds,
                env=environment_of(contestant.n_cores, is_own=contestant.environment == "own"),
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {limit_seconds:.0f} s"
        if done.returncode != 0:
            return next(iter(done.stderr.strip().splitlines()[-1:]), "stopped without a word")
        try:
            return read_answers(out)
        except (OSError, ValueError) as error:
            return f"no readable answer: {error}"


def take_turns(
    contestants: Iterable[Contestant],
    problem: Path,
    *,
    turns: int,
    repeats: int,
    peers: Path = PEERS,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> Mapping[str, Record]:
    """Run everybody in turns, forwards and backwards; who fails once is left out afterwards."""
    field_ = list(contestants)
    records = {contestant.name: Record() for contestant in field_}
    for turn in range(turns):
        for contestant in field_ if turn % 2 == 0 else field_[::-1]:
            record = records[contestant.name]
            if record.reason is not None:
                continue
            answers = run(contestant, problem, repeats=repeats, peers=peers)
            if isinstance(answers, str):
                record.reason, record.answers = answers, []
                say(f"{contestant.name}: not available: {answers}")
            else:
                record.answers += answers
                say(f"turn {turn + 1}, {contestant.name}: {min(answers[0].cpu_seconds):.4f} s")
    return records


def keep(name: str, text: str, result: Mapping[str, object], *, is_quick: bool) -> None:
    """Print the tables; keep them and the numbers behind them unless it was a quick run."""
    print(text)
    if is_quick:
        return
    RESULTS.mkdir(exist_ok=True)
    whole = {"benchmark": name, **result}
    (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text + "\n")


def as_json(record: Record, **more: object) -> dict[str, object]:
    """Return what the result file keeps of a record: everything but the values."""
    if record.reason is not None:
        return {"available": False, "reason": record.reason, **more}
    first = record.answers[0]
    return {
        "available": True,
        "library": first.library,
        "version": first.version,
        "python": first.python,
        "method": first.method,
        "calls": first.calls,
        "excluded": first.excluded,
        "cores": first.threads,
        "wall_seconds": [answer.wall_seconds for answer in record.answers],
        "cpu_seconds": [answer.cpu_seconds for answer in record.answers],
        "peak_bytes": max(answer.peak_bytes for answer in record.answers),
        "memory": first.memory,
        "notes": [answer.notes for answer in record.answers],
        **more,
    }
