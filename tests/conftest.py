from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

# The benchmark of the page opens the same browser.
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from chromium import CHROMIUM, browsing

# What ignores a signal, as `nohup` and a shell's background do, passes that on to the programs that tests start;
# what has a handler does not.
for _ignored in (getattr(signal, name, None) for name in ("SIGHUP", "SIGINT")):
    if _ignored is not None and signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, lambda number, frame: None)

# Every test has a folder, and what is tested waits for the disk again and again: half of the time of some files.
_MEMORY = Path("/dev/shm")
_ROOM = 4 * 2**30
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# No timed assertions, and the same examples everywhere.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

# Begun first, since whoever begins one of them last works alone in the end. The longest are first.
LONGEST = (
    "test_served_page.py",
    "test_deployment.py",
    "test_pages_run.py",
    "test_studies.py",
    "test_jobs.py",
    "test_decision_page.py",
    "test_simulation.py",
    "test_mechanisms_page.py",
    "test_models.py",
    "test_ray_passes.py",
    "test_report.py",
    "test_wheel.py",
    "test_golden.py",
    "test_bad_input.py",
    "test_risk.py",
    "test_opacus_reference.py",
    "test_everything_against_retraining.py",
    "test_own_model.py",
    "test_guess_from_others.py",
    "test_decide.py",
    "test_train_mechanisms.py",
    "test_whatif.py",
    "test_coverage_harness.py",
    "test_curve.py",
    "test_attack_study.py",
    "test_ceilings_script.py",
    "test_streamed_study.py",
    "test_success_rate.py",
)


# Looking for garbage among all that is imported takes a fifth of the collection and finds none.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Let SHAP's helpers run as they are written: compiling them takes every worker five seconds.

    At night they are compiled, as users have them.
    """
    if config.option.markexpr != "nightly":
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and only among what tests make."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; within a file the order stays."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


@pytest.fixture(autouse=True)
def forget_fits() -> None:
    """Begin every test as a new process does: no record was fitted."""
    if "epsilens.models.gaussian_release" in sys.modules:
        sys.modules["epsilens.models.gaussian_release"].FITS.clear()


@pytest.fixture(scope="session", autouse=True)
def put_commands_together_once() -> Iterator[None]:
    """Let commands that run in this process share the tree of commands, which is the same every time."""
    import typer.main

    make, made = typer.main.get_command, {}

    def get_command(app: typer.Typer) -> Any:
        if id(app) not in made:
            made[id(app)] = app, make(app)
        return made[id(app)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", get_command)
        yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "shared"
    folder.mkdir(exist_ok=True)
    return folder


def put(place: Path, content: bytes) -> None:
    """Write a file at once: another worker may be at the same place."""
    own = place.with_suffix(f".{os.getpid()}")
    own.write_bytes(content)
    own.replace(place)


@pytest.fixture(scope="session", autouse=True)
def guess_once(shared: Path) -> Iterator[None]:
    """Let studies guess from others once for a table, since many tests attack the same few.

    What is kept is what the predictors found for the very same columns, answers and random numbers, for
    this run of the tests and all of its workers. The predictors themselves are tested without it.
    """
    from epsilens.risk import study
    from epsilens.risk.answer_inference import cross_fitted

    kept: dict[str, tuple[Any, Any]] = {}

    def guess(known: Any, truth: Any, generator: np.random.Generator) -> Any:
        arrays = (known.values, known.is_category, known.shared, truth)
        state = generator.bit_generator.state
        key = repr(([(a.dtype.str, a.shape) for a in arrays], state)).encode()
        key = hashlib.sha256(key + b"".join(a.tobytes() for a in arrays)).hexdigest()
        if key not in kept:
            place = shared / key
            if place.exists():
                kept[key] = pickle.loads(place.read_bytes())
            else:
                found = cross_fitted(known, truth, generator)
                kept[key] = found, generator.bit_generator.state
                put(place, pickle.dumps(kept[key]))
        found, generator.bit_generator.state = kept[key]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "cross_fitted", guess)
        yield


@pytest.fixture(scope="session", autouse=True)
def put_the_chart_library_together_once(shared: Path) -> Iterator[None]:
    """Let all workers share the script that draws charts; it is the same every time, and takes a second.

    Processes that tests start put it together themselves.
    """
    import vl_convert

    bundle = vl_convert.javascript_bundle

    def javascript_bundle(snippet: str | None = None, *others: Any, **more: Any) -> str:
        if snippet is None or others or more:
            return bundle(snippet, *others, **more)
        place = shared / f"{hashlib.sha256(snippet.encode()).hexdigest()}.js"
        if not place.exists():
            put(place, bundle(snippet).encode())
        return place.read_bytes().decode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "javascript_bundle", javascript_bundle)
        yield


@dataclass(frozen=True)
class Survey:
    """A generated survey: three numbers, a category, a yes/no answer."""

    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series


def make_survey(n: int = 600, n_test: int = 300, *, seed: int = 0) -> Survey:
    rng = np.random.default_rng(seed)
    total = n + n_test
    X = pd.DataFrame(
        {
            "age": rng.normal(45, 12, total),
            "income": rng.lognormal(10, 0.5, total),
            "children": rng.integers(0, 5, total),
            "region": rng.choice(["north", "south", "east"], total),
        }
    )
    s = 0.05 * (X["age"] - 45) + 0.4 * (X["children"] - 2) + 0.6 * (X["region"] == "north") - 0.3
    answer = np.where(rng.random(total) < 1 / (1 + np.exp(-s)), "yes", "no")
    y = pd.Series(pd.Categorical(answer, categories=["no", "yes"]), name="smokes")
    return Survey(X[:n], y[:n], X[n:].reset_index(drop=True), y[n:].reset_index(drop=True))


@pytest.fixture(scope="session")
def survey() -> Survey:
    return make_survey()


@pytest.fixture(scope="session")
def survey_of():
    """Return the maker of surveys, for another size or seed."""
    return make_survey


@pytest.fixture(scope="session")
def pipeline():
    """Return a fresh pipeline, as somebody would write it."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def build(model=None):
        encode = make_column_transformer(
            (OneHotEncoder(), ["region"]), (StandardScaler(), ["age", "income", "children"])
        )
        return make_pipeline(encode, LogisticRegression() if model is None else model)

    return build


@pytest.fixture(scope="session")
def build():
    """Give the builder of realistic documents."""
    path = Path(__file__).parent / "unit" / "document" / "builder.py"
    spec = importlib.util.spec_from_file_location("document_builder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """`epsilens serve` as somebody starts it."""

    def __init__(
        self,
        state: Path,
        *arguments: str,
        opens: bool = True,
        python: str | Path = sys.executable,
        **process: Any,
    ) -> None:
        self.process = subprocess.Popen(
            [
                python,
                "-m",
                "epsilens",
                "serve",
                "--no-browser",
                "--state",
                str(state),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **process,
        )
        address = re.search(r"(http://\S+)/#token=(\S+)", self.process.stdout.readline())
        assert address is not None, self.process.communicate()[1]
        self.base, self.token = address.groups()
        self.link = address.group(0)
        assert str(state) in self.process.stdout.readline()
        import httpx

        self.client = httpx.Client(base_url=self.base, headers={"origin": self.base}, timeout=120)
        if opens:
            self.enter()

    def enter(self) -> None:
        """Exchange the link for the cookie and the key."""
        entered = self.client.post("/api/enter", json={"token": self.token})
        self.client.headers["x-epsilens-key"] = entered.json()["key"]

    def json(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        self.client.close()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    # Where the browser is promised, its absence is a failure and not a reason to skip.
    missing = pytest.fail if os.environ.get("EPSILENS_NEEDS_BROWSER") else pytest.skip
    if CHROMIUM is None:
        missing("no Chromium on this machine")
    if importlib.util.find_spec("playwright") is None:
        missing("no Playwright in this environment")
    with browsing() as started:
        yield started


@contextmanager
def running_server(state: Path, *arguments: str, **options: Any) -> Iterator[Server]:
    server = Server(state, *arguments, **options)
    yield server
    if server.process.poll() is None:
        server.end(signal.SIGTERM)


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[Server]]:
    """Return what starts a server for as long as it is needed."""
    return running_server


@pytest.fixture
def start_server() -> Iterator[Callable[..., Server]]:
    """Return what starts a server; whatever still runs is ended afterwards."""
    with ExitStack() as started:
        yield lambda *arguments, **options: started.enter_context(
            running_server(*arguments, **options)
        )
