"""A server of its own for each state folder, asked without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

from epsilens.app.access import Gate
from epsilens.app.api import create_app
from epsilens.app.folder import open_folder
from epsilens.app.service import PageService
from epsilens.app.store import Store

BASE = "http://127.0.0.1:8000"
SECRET = "Schlangenbad"
"""An answer that stands once in the table: no response may hold it."""


def make_table(n_rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n_rows)
    sex = rng.choice(["Female", "Male"], n_rows)
    chance = 1 / (1 + np.exp(2 - 0.03 * age - 0.6 * (sex == "Male")))
    town = [f"town {number}" for number in rng.integers(0, 300, n_rows)]
    town[7] = SECRET
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "income": rng.normal(30, 10, n_rows).round(2),
            "town": town,
            "smokes": np.where(rng.random(n_rows) < chance, "yes", "no"),
        }
    )


@pytest.fixture(scope="session")
def csv_bytes() -> bytes:
    return make_table().to_csv(index=False).encode()


class Visitor:
    """A browser that has opened the link."""

    def __init__(self, client: TestClient, service: PageService, gate: Gate) -> None:
        self.client, self.service, self.gate = client, service, gate
        self.seen: list[str] = []

    def ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self.client.request(method, path, **options)
        self.seen.append(answer.text)
        return answer

    def json(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        answer = self.ask(method, path, json=body) if body is not None else self.ask(method, path)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def upload(self, content: bytes, name: str = "survey.csv") -> Any:
        return self.ask("POST", "/api/tables", params={"name": name}, content=content)

    def shown(self, study_id: str) -> Any:
        """The report as a frame loads it: with a ticket, and without the key."""
        path = f"/studies/{study_id}/page"
        ticket = self.json("POST", "/api/tickets", {"path": path}, status=201)["ticket"]
        return self.ask("GET", path, params={"ticket": ticket}, headers={"x-epsilens-key": ""})

    def wait(self, job_id: str, *states: str, seconds: float = 120) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.json("GET", f"/api/jobs/{job_id}")
            if job["state"] in states:
                return job
            time.sleep(0.05)
        raise AssertionError(f"the job did not become {states}: {job}")

    def study(self, content: bytes, **question: object) -> Any:
        table = self.upload(content).json()["id"]
        asked = {
            "table": table,
            "question": {
                "label": "smokes",
                "epsilon": "0.5:8:5",
                "shadow_models": 32,
                "drop": ["town"],
                **question,
            },
        }
        return self.json("POST", "/api/studies", asked, status=201)


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Visitor]:
    store = Store(open_folder(folder))
    given = {"anonymous": False, "max_upload": 4 * 2**20, **settings}
    service, gate = PageService(store, **given), Gate()
    app = create_app(service, gate, warm_up=False)
    with TestClient(app, base_url=BASE, headers={"origin": BASE}) as client:
        entered = client.post("/api/enter", json={"token": gate.token})
        client.headers["x-epsilens-key"] = entered.json()["key"]
        yield Visitor(client, service, gate)


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    """Return what opens a state folder."""
    return serving


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with serving(tmp_path_factory.mktemp("app") / "state") as found:
        yield found


@pytest.fixture(scope="session")
def secret() -> str:
    return SECRET
