# SPDX-License-Identifier: Apache-2.0
"""Knock on every door that needs an extra, and write down what is heard.

    python doors.py [PACKAGE...]

Without names it is for an interpreter that has no extra at all; packages that are named are hidden from
one that has them. On standard output: a list of what each door that needs one of them has said.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class Hiding:
    """Finds what another finder finds, but for some packages."""

    def __init__(self, finder: Any, packages: Sequence[str]) -> None:
        self._finder, self._packages = finder, packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hidden = name.partition(".")[0] in self._packages
        return None if hidden else self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


@dataclass(frozen=True)
class Door:
    """Something public that cannot be had without an extra."""

    extra: str
    packages: tuple[str, ...]
    """Any of which it cannot do without."""
    open: Callable[[Path], object]
    """Given a table; a command gives what it said, and anything else raises."""


def command(*words: str) -> Callable[[Path], object]:
    """A command as it is typed; DATA stands for a table, and HERE for a folder."""

    def run(table: Path) -> tuple[int, str, str]:
        from epsilens.cli import main

        typed = [
            word.replace("DATA", str(table)).replace("HERE", str(table.parent)) for word in words
        ]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(typed)
        return code, out.getvalue(), err.getvalue()

    return run


def inspected(name: str, content: bytes) -> Callable[[Path], object]:
    """`epsilens inspect` of a file that begins as such files do."""

    def run(table: Path) -> object:
        table.with_name(name).write_bytes(content)
        return command("inspect", f"HERE/{name}")(table)

    return run


def features(table: Path) -> Any:
    import pandas as pd

    read = pd.read_csv(table)
    return read[["age", "children"]], read["smokes"], read["who"]


def deep_study(table: Path) -> object:
    from sklearn.linear_model import LogisticRegression

    from epsilens import WhatIf

    X, y, _ = features(table)
    return WhatIf(LogisticRegression(), head="fc").fit(X, y, X, y)


def torch_ensemble(table: Path) -> object:
    from epsilens.risk import DPSGDSettings, ShadowEnsemble, TorchTraining

    X, y, _ = features(table)
    training = TorchTraining(lambda: None, DPSGDSettings(epsilon=1.0, delta=1e-5, epochs=1))
    return ShadowEnsemble(training, n_models=4).fit(X, y)


def torch_module(table: Path) -> object:
    from epsilens.models.networks import Network
    from epsilens.models.opacus_reference import torch_network

    return torch_network(Network(2, 2))


def whole_network(table: Path) -> object:
    from epsilens.models import TorchNetwork

    X, y, _ = features(table)
    return TorchNetwork(object()).fit(X, y)


def rehearsal(table: Path, **settings: Any) -> Any:
    import pandas as pd

    from epsilens.federated import (
        DeclaredColumn,
        FederationSchema,
        PlannedOperation,
        Rehearsal,
        story,
    )

    schema = FederationSchema(
        (DeclaredColumn("region", ("north", "south")),),
        DeclaredColumn("smokes", ("no", "yes")),
        ("smokes",),
    )
    tables = (pd.read_csv(table)[["region", "smokes"]],) * 2
    values = [PlannedOperation("value", sites=(0, 1), items=1)] if settings.pop("value", 0) else ()
    steps, _ = story(schema, epsilon=3.0, n_sites=2, values=values)
    return Rehearsal(schema, tables, steps, 3.0, seed=0, **settings)


def simulated(table: Path) -> object:
    from epsilens.federated.flower.simulation import simulate

    return simulate(rehearsal(table))


def under_masks(table: Path) -> object:
    from epsilens.federated import rehearse

    return rehearse(rehearsal(table, secure_aggregation=True))


def valued(table: Path) -> object:
    from epsilens.federated import rehearse

    return rehearse(rehearsal(table, value=True))


def model() -> Any:
    import numpy as np

    from epsilens.valuation import ModelForProvider

    return ModelForProvider(np.zeros(2), np.eye(2), 100)


def asking(table: Path) -> object:
    import numpy as np

    from epsilens.valuation import AnswerBook, ItemTester, Yardstick

    return ItemTester(
        model().for_tester(),
        Yardstick(np.ones(2), np.eye(2), 100),
        key_file=table.with_name("secret.key"),
        answers=AnswerBook(table.with_name("answers.sqlite"), n_parameters=2, limit=4),
    )


def scoring(table: Path) -> object:
    import numpy as np

    from epsilens.errors import MissingExtraError
    from epsilens.models import LogisticLoss
    from epsilens.valuation import EncryptedYardstick, score_items
    from epsilens.valuation.item_messages import public_half, signing_key, together

    question = EncryptedYardstick(model().for_tester().name, "", 2, 8, b"", b"", (b"",))
    with contextlib.suppress(MissingExtraError):
        key = signing_key(b"secret")
        signature = key.sign(together(question.signed_parts()))
        question = replace(question, signer=public_half(key), signature=signature)
    return score_items(model(), question, np.ones((1, 2)), np.ones(1), LogisticLoss())


def joined(table: Path) -> object:
    import epsilens.cluster

    return epsilens.cluster.use("auto")


def explained(explainer: Any) -> Callable[[Path], object]:
    def explain(table: Path) -> object:
        from sklearn.linear_model import LogisticRegression

        from epsilens.masking import explain_task

        X, y, _ = features(table)
        numbers = X.to_numpy(dtype=float)
        trained = LogisticRegression().fit(numbers, y)
        return explain_task(trained, numbers, y.to_numpy(), explainer=explainer)

    return explain


def masker(table: Path) -> object:
    from epsilens.masking import FeatureMasker

    X, y, who = features(table)
    return FeatureMasker().fit(X, y, identity=who)


def mask_study(table: Path) -> object:
    from sklearn.linear_model import LogisticRegression

    from epsilens.masking import MaskStudy

    X, y, who = features(table)
    return MaskStudy(LogisticRegression()).fit(X, y, who, X, y, who).choose()


ASK = ("DATA", "--label", "smokes", "--protect", "smokes", "--epsilon", "1")
MASK = ("mask", "DATA", "--label", "smokes", "--identity", "who")
SIMULATE = ("federate", "simulate", "--sites", "2", "--data", "DATA", "--label", "smokes")
SIMULATE += ("--protect", "smokes", "--epsilon", "3")
AT = ("--state", "HERE/state")
FLOWER = ("flwr",)

DOORS = {
    "WhatIf(head=)": Door("torch", ("torch",), deep_study),
    "ShadowEnsemble(TorchTraining)": Door("torch", ("torch", "opacus"), torch_ensemble),
    "torch_network": Door("torch", ("torch", "opacus"), torch_module),
    "TorchNetwork.fit": Door("torch", ("torch",), whole_network),
    "cluster.use": Door("cluster", ("ray",), joined),
    "explain_task, SHAP": Door("explain", ("shap",), explained("shap")),
    "explain_task, LIME": Door("explain", ("lime",), explained("lime")),
    "FeatureMasker.fit": Door("explain", ("shap",), masker),
    "MaskStudy.choose": Door("explain", ("shap",), mask_study),
    "ItemTester": Door("secure", ("tenseal", "cryptography"), asking),
    "score_items": Door("secure", ("tenseal", "cryptography"), scoring),
    "rehearse, a value": Door("secure", ("tenseal", "cryptography"), valued),
    "rehearse, under masks": Door("federated", ("cryptography",), under_masks),
    "inspect, a workbook": Door(
        "excel", ("python_calamine",), inspected("survey.xlsx", b"PK\x03\x04")
    ),
    "inspect, a file of SPSS": Door("stats", ("pyreadstat",), inspected("survey.sav", b"$FL2")),
    "simulate": Door("federated", ("flwr", "ray"), simulated),
} | {
    "epsilens " + " ".join(words): Door(extra, packages, command(*words))
    for extra, packages, words in [
        ("cluster", ("ray",), ("whatif", *ASK, "--method", "retrain", "--cluster", "auto")),
        ("cluster", ("ray",), ("risk", *ASK, "--cluster", "auto")),
        ("cluster", ("ray",), ("decide", *ASK, "--max-attack-rate", "0.9", "--cluster", "auto")),
        ("explain", ("shap",), MASK),
        ("explain", ("lime",), (*MASK, "--explainer", "lime")),
        ("explain", ("shap",), ("decide", *ASK, "--max-attack-rate", "0.9", "--identity", "who")),
        ("trees", ("interpret",), ("decide", *ASK, "--mechanism", "dp-ebm")),
        ("boosted", ("xgboost",), ("whatif", *ASK, "--model", "xgboost")),
        ("boosted", ("lightgbm",), ("whatif", *ASK, "--model", "lightgbm")),
        ("synthetic", ("mbi",), ("decide", *ASK, "--mechanism", "synthetic-aim")),
        ("federated", ("flwr", "ray"), SIMULATE),
        ("federated", ("cryptography",), (*SIMULATE, "--in-process", "--secure-aggregation")),
        ("secure", ("tenseal", "cryptography"), (*SIMULATE, "--in-process", "--value", "0:1")),
        ("federated", FLOWER, ("federate", "key", *AT)),
        ("federated", FLOWER, ("federate", "site", *AT)),
        ("federated", FLOWER, ("federate", "server", *AT)),
        ("federated", FLOWER, ("federate", "register", "site.pub", *AT, "--out", "HERE/out.json")),
        ("federated", FLOWER, ("federate", "unregister", "1", *AT)),
        ("federated", FLOWER, ("federate", "train", *AT)),
        ("federated", FLOWER, ("federate", "apply", *AT)),
        ("federated", FLOWER, ("federate", "remove", "1", *AT)),
        ("federated", FLOWER, ("federate", "value", *AT, "--provider", "0", "--tester", "1")),
    ]
}
"""All of them; `test_extras.py` holds the list against the imports of the source."""


def write_survey(path: Path) -> None:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 240
    pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "children": rng.integers(0, 5, n),
            "region": rng.choice(["north", "south"], n),
            "who": rng.choice(["a", "b", "c"], n),
            "smokes": rng.choice(["no", "yes"], n),
        }
    ).to_csv(path, index=False)


def knock(door: Door) -> dict[str, object]:
    """Return what a door says: exit code and streams of a command, or type and message."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = Path(folder) / "survey.csv"
        write_survey(table)
        try:
            heard = door.open(table)
        except Exception as error:
            return {"raised": type(error).__name__, "message": str(error)}
    if isinstance(heard, tuple):
        return dict(zip(("code", "out", "err"), heard, strict=True))
    return {"raised": None, "message": repr(heard)}


def main() -> None:
    hidden = sys.argv[1:]
    if hidden:
        sys.meta_path[:] = [Hiding(finder, hidden) for finder in sys.meta_path]
    heard = [
        {"door": name, "extra": door.extra, **knock(door)}
        for name, door in DOORS.items()
        if not hidden or set(hidden) & set(door.packages)
    ]
    print(json.dumps(heard))


if __name__ == "__main__":
    main()
