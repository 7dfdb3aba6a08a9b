# SPDX-License-Identifier: Apache-2.0
"""Texts of other libraries that are looked for because nothing else tells the cases apart.

Ray and Flower raise one type of error for many causes, or only write to a log; scikit-learn raises `ValueError`
for whatever is wrong with a table. A new version may word them differently: then the general message is shown.
"""

from __future__ import annotations

import re

TYPER_SUGGESTION = "Did you mean"
"""Some versions of typer name what may have been meant in the message, others in a field only."""

RAY_CLIENT_NOT_STARTED = "Initialization failure"
RAY_OTHER_VERSION = "ersion mismatch"
RAY_OTHER_MACHINE = ("No node info found", "IP address")
RAY_VERSIONS = re.compile(r"(Ray|Python): (\S+)")
"""A name and its version: those of the cluster first, then ours."""

FLOWER_ONLINE = "SuperNode ID:"
FLOWER_REFUSALS = ("[code:", "certificate verify failed")
"""In the log of a node that was refused; one whose server is away tries again by itself."""

SCIKIT_LEARN_REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(begins), said)
    for begins, said in (
        (
            r"Found array with 0 (sample|feature)\(s\) \(shape=(\(\d*, ?\d*\))\) while",
            r"Found array with 0 \1(s) (shape=\2) while a minimum of 1 is required.",
        ),
        (r"Found array with dim (\d+)[,.]", r"Found array with dim \1, while dim 2 is required."),
        (r"Input (X|y) contains NaN", r"Input \1 contains NaN. Drop or impute missing values."),
        (
            r"Input (X|y) contains infinity",
            r"Input \1 contains infinity or a value too large for dtype('float64').",
        ),
        (
            r"Complex data not supported",
            "Complex data not supported. X and y must be real numbers.",
        ),
        (
            r"Sparse data was passed",
            "Sparse data was passed, but dense data is required. Use X.toarray().",
        ),
        (
            r"X has (\d+) features?, but \w+ is expecting (\d+) features? as input",
            r"X has \1 features, but {name} is expecting \2 features as input.",
        ),
        (
            r"The feature names should match",
            "The feature names should match those that were passed during fit, in their order. "
            "Compare them with `feature_names_in_`.",
        ),
        (
            r"Feature names are only supported",
            "the column names of X must all be strings, got other kinds. Rename the columns.",
        ),
        (
            r"Found input variables with inconsistent numbers of samples: (\[\d+, \d+\])",
            r"Found input variables with inconsistent numbers of samples: \1. Give X and y as many.",
        ),
        (
            r"y should be a 1d array, got an array of shape (\([\d, ]*\))",
            r"y should be a 1d array, got an array of shape \1. Give one target.",
        ),
        (
            r"This \w+ estimator requires y to be passed",
            "This {name} estimator requires y to be passed, but the target y is None.",
        ),
        (
            r"Expected 2D array, got (1D|scalar) array",
            r"Expected 2D array, got \1 array instead. Reshape your data: one row per record.",
        ),
        (
            r".*argument must be",
            "every argument must be a string or a number, got another kind of value in X or y.",
        ),
    )
)
"""How a message begins, and what is said in its place. Only counts and shapes are taken over."""
