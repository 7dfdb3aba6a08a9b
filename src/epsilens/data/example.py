# SPDX-License-Identifier: Apache-2.0
"""The survey that the demonstration uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SURVEY_PROVENANCE", "load_survey"]

SURVEY_PROVENANCE = (
    "Redbook survey of 6,366 married women, 1974: R. C. Fair, A Theory of Extramarital Affairs, "
    "Journal of Political Economy 86 (1978), as distributed with statsmodels (public domain)."
)


def load_survey() -> pd.DataFrame:
    """Load the survey on extramarital affairs that the demonstration uses.

    6,366 married women said how they rate their marriage, how old they are, how religious,
    and whether they ever had an affair: an answer many would give only if it were protected.

    Returns
    -------
    pandas.DataFrame
        Eight columns of answers as in the source, and the label `affair`, "yes" or "no".

    References
    ----------
    R. C. Fair, "A Theory of Extramarital Affairs", Journal of Political Economy 86 (1978).

    Examples
    --------
    >>> survey = load_survey()
    >>> survey.shape, int((survey["affair"] == "yes").sum())
    ((6366, 9), 2053)
    """
    import numpy as np
    from statsmodels.datasets import fair

    survey: pd.DataFrame = fair.load_pandas().data
    label = np.where(survey["affairs"].to_numpy() > 0, "yes", "no")
    return survey.drop(columns="affairs").assign(affair=label)
