# SPDX-License-Identifier: Apache-2.0
"""A decision, and what can be asked of it afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epsilens._validate import as_epsilon, as_loss_limit, as_share
from epsilens.data.frames import Documented, like
from epsilens.document import DecisionDocument, Recommendation, view
from epsilens.document.decision import joined_points
from epsilens.errors import InputError

if TYPE_CHECKING:
    import altair as alt

    from epsilens.document.annexes import Annexes


_COST_COLUMNS = (
    *("loss_change", "loss_change_low", "loss_change_high"),
    *("accuracy_change", "trusted"),
)
_RISK_COLUMNS = (
    *("advantage", "answer_inference_rate"),
    *("answer_inference_baseline", "answer_inference_ceiling"),
)


@dataclass(frozen=True)
class Standing:
    """What one budget means: the loss to be borne, the attack to be feared.

    Attributes
    ----------
    epsilon : float
    loss_increase : float
        The largest increase of the test loss that must be reckoned with, at the decision's confidence.
    attack_ceiling : float or None
        The share of answers that no attack can exceed: proven given the upper bound of what everybody
        else's data give away.
    attack_high : float or None
        The upper end of what was measured, where the decision may rest on that; None otherwise.
    is_trusted : bool
        Whether the cost passed its checks.
    advantage : float or None
        The proven advantage: of the answers that other data do not give away, the share that becomes
        guessable.
    accuracy_loss : float
        The largest loss of test accuracy that must be reckoned with, as a share; infinite where it is not
        known.
    """

    epsilon: float
    loss_increase: float
    attack_ceiling: float | None
    attack_high: float | None
    is_trusted: bool
    advantage: float | None = None
    accuracy_loss: float = math.inf


@dataclass(frozen=True, repr=False)
class Decision(Documented):
    """Cost and benefit of each ε on one axis, and the ε that the limits lead to.

    Attributes
    ----------
    document : DecisionDocument
        The whole decision; what follows are views of it.
    standings : tuple of Standing
        What every budget of the common grid means, ε ascending.
    template : object
        A frame of the library that `to_frame` returns; None: pandas.

    Examples
    --------
    >>> from epsilens.document import Provenance, example_document
    >>> origin = Provenance(method="exact")
    >>> document = DecisionDocument(
    ...     provenance=origin, cost=example_document("whatif", cells=[]),
    ...     risk=example_document("risk", cells=[]),
    ...     recommendation=Recommendation(epsilon=2.0, holds=True, sentence="ε = 2.",
    ...                                   rule="max_loss_increase", confidence=0.9))
    >>> decision = Decision(document, (Standing(1.0, 0.02, 0.7, 0.6, True),
    ...                                Standing(2.0, 0.01, 0.9, 0.7, True)))
    >>> decision.at(2.0).attack_ceiling, decision.loss_needed(max_attack_rate=0.65)
    (0.9, 0.02)
    >>> decision.attack_rate_needed(max_loss_increase=0.015)
    0.9
    """

    document: DecisionDocument
    standings: tuple[Standing, ...]
    template: object = field(default=None, compare=False)

    @property
    def recommendation(self) -> Recommendation:
        """The ε that the limits lead to, with its sentence."""
        return self.document.recommendation

    def at(self, epsilon: float) -> Standing:
        """Return what one budget of the grid means: the inverse question.

        Parameters
        ----------
        epsilon : float
            One of the grid.

        Returns
        -------
        Standing

        Raises
        ------
        InputError
            If it is none of the grid.
        """
        as_epsilon(epsilon)
        for standing in self.standings:
            if standing.epsilon == epsilon:
                return standing
        raise InputError(
            argument="epsilon",
            expected=f"one of the {len(self.standings)} budgets of the grid",
            got=f"{epsilon:g}",
        )

    def loss_needed(self, *, max_attack_rate: float) -> float | None:
        """Return the loss that must be borne to keep attackers within a rate.

        Parameters
        ----------
        max_attack_rate : float in (0, 1)

        Returns
        -------
        float or None
            The increase at the largest ε that keeps them within it; None if no ε of the grid does.
        """
        from epsilens.decision.rules import attack_limit

        limit, _ = attack_limit(
            self.standings, rate=as_share(max_attack_rate, name="max_attack_rate")
        )
        if limit is None:
            return None
        # A limit on the loss holds at every larger ε too.
        return max(s.loss_increase for s in self.standings if s.epsilon >= limit)

    def attack_rate_needed(self, *, max_loss_increase: float) -> float | None:
        """Return the attack rate that must be lived with to keep the loss within a limit.

        Parameters
        ----------
        max_loss_increase : float

        Returns
        -------
        float or None
            The proven ceiling at the smallest ε that keeps the loss within the limit; None if no ε
            of the grid does.
        """
        from epsilens.decision.rules import loss_limit

        limit = loss_limit(self.standings, as_loss_limit(max_loss_increase))
        return None if limit is None else self.at(limit).attack_ceiling

    def to_frame(self) -> object:
        """Return one row per ε: everybody's cost, the risk, and whether it is the recommended one.

        Returns
        -------
        frame
            epsilon, loss_change, loss_change_low, loss_change_high, accuracy_change, trusted, advantage,
            answer_inference_rate, answer_inference_baseline, answer_inference_ceiling, recommended.
        """
        import pandas as pd

        chosen = self.document.randomised
        rows = [
            {
                "epsilon": point.epsilon,
                **{name: getattr(point.cost, name) for name in _COST_COLUMNS},
                **{name: getattr(point.risk, name) for name in _RISK_COLUMNS},
                "recommended": point.epsilon == chosen.epsilon,
            }
            for point in joined_points(self.document.cost, self.document.risk)
        ]
        columns = ["epsilon", *_COST_COLUMNS, *_RISK_COLUMNS, "recommended"]
        frame = pd.DataFrame(rows, columns=columns)
        numbers = [name for name in columns if name not in {"trusted", "recommended"}]
        return like(frame.astype(dict.fromkeys(numbers, "float64")), self.template)

    def annexes(self, *, data: str | None = None) -> Annexes:
        """Return texts to copy: for an impact assessment, a checklist, and an entry for a registry.

        Parameters
        ----------
        data : str, optional
            What the data are called.

        Returns
        -------
        Annexes
            `assessment`, `checklist` and `registry`, each with `text` and `to_dict()`.
        """
        from epsilens.document.annexes import annexes

        return annexes(self.document, data=data)

    def plot(self) -> alt.LayerChart | alt.VConcatChart:
        """Draw the mechanisms against each other; cost above attack where there is only one."""
        from epsilens.show import document_chart

        return document_chart(self.document)

    def __repr__(self) -> str:
        shown = view(self.document)
        said = [f"Decision({len(self.standings)} epsilon)", shown.sentences[0]]
        said += [fact.sentence for fact in shown.facts]
        return "\n".join(said if shown.runner_up is None else [*said, shown.runner_up])

    def _repr_html_(self) -> str:
        """Show itself in a notebook."""
        from epsilens.show.notebook import decision_html

        return decision_html(self.document)
