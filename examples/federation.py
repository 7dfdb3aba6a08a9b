# SPDX-License-Identifier: Apache-2.0
"""The story of a federation between real processes: a coordinator and five sites, TLS, node keys.

Run it with `make federation`. Everything lives in a temporary folder and goes with it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from deployment import Deployment

from epsilens.data import load_survey
from epsilens.federated.rehearsal import divide

N_SITES = 5
LABEL, PROTECT = "affair", "affair"


def main() -> None:
    began = time.perf_counter()

    def tell(text: str) -> None:
        print(f"\n[{time.perf_counter() - began:5.1f} s] {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="epsilens-") as name:
        folder = Path(name)
        survey = load_survey()
        parts = divide(survey[LABEL], n_sites=N_SITES, skew="none", seed=0)
        for number, rows in enumerate(parts):
            survey.iloc[np.sort(rows)].to_csv(folder / f"data-{number}.csv", index=False)
        deployment = Deployment(folder, folder / "contract.json")
        try:
            story(deployment, tell)
        finally:
            tell("Everything is taken down.")
            deployment.end()


def story(deployment: Deployment, tell) -> None:
    folder = deployment.folder

    def show(operation: str, *arguments: object) -> None:
        began = time.perf_counter()
        done = deployment.lead(operation, *arguments)
        print(done.stdout or done.stderr, end="")
        print(f"({operation}: {time.perf_counter() - began:.1f} s)", flush=True)

    tell("The contract is drafted, and the coordinator's server started.")
    survey = folder / "data-0.csv"
    print(
        deployment.do(
            *("schema", survey, "--label", LABEL, "--protect", PROTECT),
            *("--out", deployment.contract),
        ),
        end="",
    )
    deployment.start_server()
    tell("Each site makes a key, is registered, draws once and comes online.")
    for number in range(N_SITES):
        deployment.invite(number)
        deployment.join(number, folder / f"data-{number}.csv", 3)
    deployment.wait_online(*range(N_SITES))
    tell("They train together.")
    show("train")
    tell("Site 2 wants a stricter ε; the coordinator looks first, then applies it.")
    print(deployment.do("request", "--state", deployment.site(2), "--epsilon", 1), end="")
    show("apply", "--preview", "--quiet")
    show("apply", "--quiet")
    tell("Site 4 leaves.")
    show("remove", 4, "--quiet")
    tell("Where the federation stands.")
    show("status")


if __name__ == "__main__":
    main()
