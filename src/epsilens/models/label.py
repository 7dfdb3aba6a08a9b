# SPDX-License-Identifier: Apache-2.0
"""The label as the model sees it, and the domain within which it would be randomised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.data.frames import series_name, to_vector
from epsilens.data.schema import LARGEST_NUMERIC_DOMAIN, DomainOrigin
from epsilens.errors import InputError, setting
from epsilens.models.scikit_learn import ClassWeight


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Label:
    """Training labels.

    Attributes
    ----------
    name : str or None
    y : array of shape (n,)
        The class 0..K−1 for a classifier, the target itself for a regression.
    categories : tuple or None
        The domain in the user's own values, in the order of `codes`; None for a continuous target.
    values : array of shape (k,) or None
        The domain as the loss sees it.
    codes : array of int, shape (n,), or None
    origin : {"given", "declared", "observed"}
        Where the domain comes from: the caller, the dtype, or the data; an observed one tells which
        values occur.
    n_classes : int
        Number of classes; 0 for a regression, whose label is a number.
    n_unknown : int
        Categories that the dtype declares and the model does not know.
    """

    name: str | None
    y: FloatArray
    categories: tuple[object, ...] | None
    values: FloatArray | None
    codes: NDArray[np.int64] | None
    origin: DomainOrigin
    n_classes: int = 0
    n_unknown: int = 0

    def domain(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the codes and the domain's values, for a label that can be randomised.

        Raises
        ------
        InputError
            For a continuous or constant target.
        """
        if self.codes is None or self.values is None:
            raise InputError(
                "randomised response needs a label with 2 to 20 distinct values, got a "
                "continuous or constant one. Bin it into classes, or give its domain as "
                f"{setting('categories')}."
            )
        return self.codes, self.values

    def protected(self, categories: Sequence[object] | None) -> Label:
        """Return the label as it is randomised: over the given domain, or over its own.

        Raises
        ------
        InputError
            If the dtype declares categories that the model does not know, and none are given; or if
            the given ones do not fit.
        """
        if categories is not None:
            return self.with_domain(categories)
        if self.n_unknown:
            known = self.n_classes
            raise InputError(
                f"the label declares {known + self.n_unknown} categories, but the model distinguishes "
                f"{known}: randomised response could report one that it does not know. Drop the unused "
                "categories, or train on records of every class."
            )
        return self

    def with_values(self, values: tuple[float, float]) -> Label:
        """Return the label with other numbers for its two classes."""
        numbers = np.array(values)
        codes, _ = self.domain()
        return replace(self, values=numbers, y=numbers[codes])

    def with_domain(self, categories: Sequence[object]) -> Label:
        """Return the label with a domain that the caller vouches for.

        Raises
        ------
        InputError
            If labels lie outside, or a classifier would need another number of classes.
        """
        domain = tuple(categories)
        shown = self.name or "label"
        if len(set(domain)) != len(domain) or len(domain) < 2:
            raise InputError(
                f"{setting('categories')} of {shown!r} must be at least two different values, got "
                f"{len(domain)} with {len(set(domain))} different."
            )
        known = self.categories or ()
        if set(domain) == set(known):
            return replace(self, origin="given")
        are_numbers = all(
            isinstance(value, int | float | np.integer | np.floating)
            and not isinstance(value, bool)
            for value in domain
        )
        if self.n_classes or not are_numbers:
            raise InputError(
                f"{setting('categories')} of {shown!r} must be the {len(known)} classes the model "
                f"distinguishes, got {len(domain)} values that are not these. Check the spelling, "
                "and leave out answers that no training row has."
            )
        values = np.sort(np.array(domain, dtype=np.float64))
        codes = np.searchsorted(values, self.y)
        outside = codes == len(values)
        outside |= values[np.minimum(codes, len(values) - 1)] != self.y
        if outside.any():
            raise InputError(
                f"{setting('categories')} of {shown!r} must contain every label, but "
                f"{int(outside.sum())} rows have another value. Add the missing categories."
            )
        return replace(
            self,
            categories=tuple(values.tolist()),
            values=values,
            codes=codes.astype(np.int64),
            origin="given",
        )


def _declared_categories(y: object) -> tuple[object, ...] | None:
    """Return the categories that a dtype declares, or None.

    pandas' Categorical and polars' Enum list their categories whether they occur or not; polars'
    Categorical only collects what it has seen, which declares nothing.
    """
    import narwhals as nw
    import pandas as pd

    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        return tuple(dtype.categories.tolist())
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        return tuple(series.dtype.categories)
    return None


def class_codes(
    values: NDArray[np.generic], categories: Sequence[object], *, what: str
) -> NDArray[np.int64]:
    """Return every label's position among the classes; refuse labels that are none."""
    import pandas as pd

    known = np.asarray(categories)
    if (
        values.dtype.kind in "biuf"
        and known.dtype.kind in "biuf"
        and (known[1:] > known[:-1]).all()
    ):
        places = np.minimum(np.searchsorted(known, values), len(known) - 1)
        codes = np.where(known[places] == values, places, -1).astype(np.int64)
    else:
        codes = np.asarray(
            pd.Index(list(categories)).get_indexer(pd.Index(values.tolist())), dtype=np.int64
        )
    if (codes < 0).any():
        raise InputError(
            f"the {what} labels must be among the {len(categories)} classes of the training labels, "
            f"but {int((codes < 0).sum())} are not. Check the label's spelling and type."
        )
    return codes


def refuse_missing(values: NDArray[np.generic], *, what: str) -> None:
    """Refuse labels of which some are missing."""
    import pandas as pd

    missing = int(np.sum(pd.isna(values)))
    if missing:
        raise InputError(
            f"the {what} labels must not be missing, but {missing} are. Drop those rows first."
        )


def read_label(y: object, *, is_classifier: bool, classes: Sequence[object] | None) -> Label:
    """Read training labels.

    Parameters
    ----------
    y : column
    is_classifier : bool
    classes : sequence, optional
        The classes of an estimator that is fitted already.
    """
    name = series_name(y)
    values = to_vector(y)
    if len(values) == 0:
        raise InputError("the training labels must have at least one row, got 0.")
    refuse_missing(values, what="training")
    declared = _declared_categories(y)
    origin: DomainOrigin = "observed" if declared is None else "declared"
    if not is_classifier:
        y = numbers_of(values, what="training")
        known = y
        if declared is not None:
            known = numbers_of(np.array(declared, dtype=object), what="declared")
        distinct = np.unique(known)
        if len(distinct) > LARGEST_NUMERIC_DOMAIN or len(distinct) < 2:
            return Label(name=name, y=y, categories=None, values=None, codes=None, origin=origin)
        return Label(
            name=name,
            y=y,
            categories=tuple(distinct.tolist()),
            values=distinct,
            codes=np.searchsorted(distinct, y).astype(np.int64),
            origin=origin,
        )
    observed = sorted_distinct(values)
    if len(observed) < 2:
        raise InputError(
            "the training labels must have two classes, got 1. A model of one class has nothing to "
            "lose; choose another label."
        )
    domain = tuple(classes) if classes is not None else observed
    codes = class_codes(values, domain, what="training")
    return Label(
        name=name,
        y=codes.astype(np.float64),
        categories=domain,
        values=np.arange(len(domain), dtype=np.float64),
        codes=codes,
        origin=origin,
        n_classes=len(domain),
        n_unknown=len(set(declared or ()) - set(domain)),
    )


def classes_of(y: object) -> tuple[object, ...]:
    """Return the classes of labels in order: as their dtype declares them, else sorted.

    Examples
    --------
    >>> classes_of([3, 1, 3])
    (1, 3)
    """
    declared = _declared_categories(y)
    if declared is not None:
        return declared
    values = to_vector(y)
    refuse_missing(values, what="training")
    return sorted_distinct(values)


def sorted_distinct(values: NDArray[np.generic]) -> tuple[object, ...]:
    """Return the distinct labels in order; refuse a mixture of types."""
    try:
        return tuple(np.unique(values).tolist())
    except TypeError:
        raise InputError(
            "the labels must be of one type, got a mixture (for instance text and numbers). "
            "Convert them first."
        ) from None


def numbers_of(values: NDArray[np.generic], *, what: str) -> FloatArray:
    """Return the labels of a regression as finite numbers."""
    if values.dtype.kind not in "biuf":
        try:
            values = np.array(values.tolist(), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"the {what} labels of a regression must be numbers, got text. Use a classifier."
            ) from None
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"the {what} labels must be finite numbers. Drop or fix those rows first.")
    return numbers


def encode_test_label(
    y: object,
    label: Label,
    *,
    is_classifier: bool,
    n_rows: int,
    what: str = "test",
    argument: str = "y_test",
) -> FloatArray:
    """Return the test (or candidate) labels in the coding of the training labels."""
    values = to_vector(y)
    if len(values) != n_rows:
        raise InputError(
            f"{setting(argument)} must have one label per {what} row ({n_rows}), got {len(values)}."
        )
    refuse_missing(values, what=what)
    if is_classifier and label.categories is not None:
        return class_codes(values, label.categories, what=what).astype(np.float64)
    return numbers_of(values, what=what)


# --- Class weights: given, or balanced by the labels that training sees ---


def balanced(totals: FloatArray) -> FloatArray:
    """Return W / (k W_c) for the weight W_c of every class.

    Examples
    --------
    >>> import numpy as np
    >>> balanced(np.array([1.0, 3.0]))
    array([2.        , 0.66666667])
    """
    if not (totals > 0).all():
        raise InputError(
            'class_weight="balanced" needs records of every class, but one has none. Leave it out.'
        )
    weights: FloatArray = totals.sum() / (len(totals) * totals)
    return weights


def class_weights(given: ClassWeight, label: Label, totals: FloatArray) -> FloatArray:
    """Return ω for every class, given the weight of the records of each.

    Parameters
    ----------
    given : None, "balanced" or mapping of class to weight
    label : Label
    totals : array of shape (k,)
    """
    k = len(totals)
    if given is None or label.categories is None:
        return np.ones(k)
    if isinstance(given, str):
        return balanced(totals)
    unknown = [name for name in given if name not in label.categories]
    if unknown:
        raise InputError(
            f"{setting('class_weight')} must name classes of the label, but {len(unknown)} of its "
            "keys are none."
        )
    return np.array([float(given.get(name, 1.0)) for name in label.categories])


def class_totals(codes: NDArray[np.int64], weights: FloatArray, k: int) -> FloatArray:
    """Return the weight of the records of every class."""
    totals: FloatArray = np.bincount(codes, weights=weights, minlength=k).astype(np.float64)
    return totals


def own_class_weights(given: ClassWeight, label: Label, sample_weights: FloatArray) -> FloatArray:
    """Return the class weight of every training record's own label."""
    if given is None or label.codes is None or label.values is None:
        return np.ones(len(sample_weights))
    totals = class_totals(label.codes, sample_weights, len(label.values))
    return class_weights(given, label, totals)[label.codes]
