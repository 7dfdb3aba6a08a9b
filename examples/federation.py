# SPDX-License-Identifier: Apache-2.0
"""The story of a federation between real processes: a coordinator and five sites, TLS, node keys.

Run it with `make federation`. Everything lives in a temporary folder and goes with it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from deployment import Deployment

from epsilens.data import load_survey
from epsilens.federated import Coordinator, LocalParties, open_site
from epsilens.federated.coordinator_store import CoordinatorStore
from epsilens.federated.rehearsal import divide

N_SITES = 5
LABEL, PROTECT = "affair", "affair"
PROVIDER, OFFER, TESTERS = 1, 400, (3, 0, 2, 4)


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


def was_accepted(deployment: Deployment) -> bool:
    """Compare the model that took the offer in with one that is trained again on all draws together."""
    store = CoordinatorStore(deployment.coordinator)
    before, after = store.load().versions[0], store.load().versions[-1]
    if after.operation != "accept":
        return False
    sites = [open_site(deployment.site(number), store.schema) for number in range(N_SITES)]
    again = Coordinator(store.schema, LocalParties(sites), regularisation=store.regularisation)
    theta = again.train().theta
    left, way = (float(np.linalg.norm(version.theta - theta)) for version in (after, before))
    print(
        f"Accepted by one Newton step. Trained again on all {sum(s.n for s in sites):,} drawn records, the "
        f"model would be {left:.1e} away from it, and {way:.1e} from the one before."
    )
    if not left < 0.1 * way:
        raise RuntimeError("the step must make most of the way to training again, but does not")
    return True


def story(deployment: Deployment, tell: Callable[[str], None]) -> None:
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
        offer = ("--offer", OFFER) if number == PROVIDER else ()
        deployment.join(number, folder / f"data-{number}.csv", 3, *offer)
    deployment.wait_online(*range(N_SITES))
    tell("They train together.")
    show("train")
    tell(f"Site {PROVIDER} has {OFFER} records on offer; are they worth something to the others?")
    for tester in TESTERS:
        asked = ("--provider", PROVIDER, "--tester", tester, "--mode", "batch", "--accept")
        show("value", *asked, "--quiet")
        if was_accepted(deployment):
            break
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
