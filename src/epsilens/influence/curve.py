# SPDX-License-Identifier: Apache-2.0
"""A group's whole curve over ε from a handful of points.

With randomised response the expected perturbed objective moves along a line: its linear term is
linear₀ + t·π, where t is the chance of each other label. The minimiser θ(t), its Hessian and the noise
terms are smooth in √t, so they are computed at the nodes of a Chebyshev–Lobatto grid in √t, and polynomials
give them everywhere between. (In t itself the largest ε would all lie between the first two nodes, where
nearly separable data bend most.) θ is then finished by the solver at every ε, so that its accuracy does not
depend on the nodes. The rest is taken from the polynomials, and they are held to what it is needed for:
the mean change of the test loss and both ends of its interval, to 1 % of the interval's width. What the
coarser of two grids gets wrong at the nodes that the finer one adds is measured; the error of the finer
one, which is then used, is at least as much smaller as from one grid to the next before. Where that is not
reached, there is no curve, and every cell is solved by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import KroghInterpolator

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence.baseline import TrainedModel
from epsilens.influence.evaluation import NoiseForms
from epsilens.influence.label_noise import LabelNoise, root_of
from epsilens.models import Curvature, factorise, minimise
from epsilens.models.solver import LONGEST_REACH, LinearObjective

# Shares of the width of the interval: of the curve that is used, and where nothing is known but what the grid
# before it gets wrong at its nodes.
_LARGEST_ERROR = 0.01
_LARGEST_COARSE_ERROR = 0.02
_LEVELS = (4, 8)
MOST_NODES = _LEVELS[-1] + 1
_NEARLY_ZERO = 1e-6
_WIDTH = 3.29
"""Width of a normal 90 % interval, in standard deviations."""


def lobatto(n_intervals: int) -> FloatArray:
    """Return the Chebyshev–Lobatto points of [0, 1], which nest when their number is doubled.

    Examples
    --------
    >>> lobatto(4).round(3)
    array([0.   , 0.146, 0.5  , 0.854, 1.   ])
    """
    points: FloatArray = 0.5 * (1.0 - np.cos(np.pi * np.arange(n_intervals + 1) / n_intervals))
    return points


@dataclass(frozen=True, repr=False)
class Node:
    """The minimiser at one t and what belongs to it.

    Attributes
    ----------
    at : float
        √(t / the largest t).
    theta, tangent : arrays of shape (K·p,)
        θ(t) and its derivative by t, H⁻¹π.
    curvature : Curvature
    """

    at: float
    theta: FloatArray
    tangent: FloatArray
    curvature: Curvature


@dataclass(frozen=True, repr=False)
class NodeTerms:
    """What the noise of a run brings at one node.

    Attributes
    ----------
    test_hessian : array of shape (K·p, K·p)
    third : array of shape (K·p,)
        ∇³F[Σ]/t.
    root : array of shape (K·p, r)
        R with RRᵀ = Σ/t.
    """

    test_hessian: FloatArray
    third: FloatArray
    root: FloatArray


@dataclass(frozen=True, repr=False)
class Curve:
    """Everything that a cell needs, as polynomials in √t.

    Attributes
    ----------
    nodes : list of Node, t ascending
    terms : list of NodeTerms
        Terms of every node; their roots give the xᵀΣx/t of the test records, which are mixed like all else.
    largest_t : float
        The largest t.
    """

    nodes: list[Node]
    terms: list[NodeTerms]
    largest_t: float

    def noise(self, t: FloatArray) -> NoiseForms:
        """Return xᵀΣx of the test records at every t."""
        roots = [term.root for term in self.terms]
        return NoiseForms(roots, np.array([at * self.weights(at) for at in t]), "root")

    def weights(self, t: float) -> FloatArray:
        """Return the weight of every node's value at t (Lagrange)."""
        return _lagrange(_places(self.nodes), np.sqrt(t / self.largest_t))

    def hessian(self, t: float) -> FloatArray:
        """Return the Hessian of the training objective."""
        return _mix(self.weights(t), [node.curvature.hessian for node in self.nodes])

    def test_hessian(self, t: float) -> FloatArray:
        """Return the Hessian of the test loss."""
        return _mix(self.weights(t), [term.test_hessian for term in self.terms])

    def third(self, t: float) -> FloatArray:
        """Return ∇³F[Σ]."""
        return t * _mix(self.weights(t), [term.third for term in self.terms])

    def starts(self, t: FloatArray) -> FloatArray:
        """Return θ(t) by the nodes' values and tangents, (K·p, n)."""
        return _hermite(self.nodes, np.sqrt(t / self.largest_t), self.largest_t)


@dataclass(frozen=True, repr=False)
class _Line:
    """What two nodes say in between: a straight line in t, which a curve of three contains."""

    first: Node
    last: Node
    first_terms: NodeTerms
    last_terms: NodeTerms
    largest_t: float

    def _mix(self, t: float, one: FloatArray, other: FloatArray) -> FloatArray:
        share = t / self.largest_t
        mixed: FloatArray = (1.0 - share) * one + share * other
        return mixed

    def hessian(self, t: float) -> FloatArray:
        return self._mix(t, self.first.curvature.hessian, self.last.curvature.hessian)

    def test_hessian(self, t: float) -> FloatArray:
        return self._mix(t, self.first_terms.test_hessian, self.last_terms.test_hessian)

    def third(self, t: float) -> FloatArray:
        return t * self._mix(t, self.first_terms.third, self.last_terms.third)


def _places(nodes: list[Node]) -> FloatArray:
    return np.array([node.at for node in nodes])


def _lagrange(nodes: FloatArray, at: float) -> FloatArray:
    weights = np.ones(len(nodes))
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        weights[k] = np.prod((at - others) / (node - others))
    return weights


def _mix(weights: FloatArray, values: list[FloatArray]) -> FloatArray:
    total: FloatArray = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total += weight * value
    return total


def _hermite(nodes: list[Node], at: FloatArray, largest_t: float) -> FloatArray:
    places = np.repeat(_places(nodes), 2)
    # dθ/d√(t/T) = 2 √(t/T) T dθ/dt.
    values = np.array(
        [v for node in nodes for v in (node.theta, 2.0 * node.at * largest_t * node.tangent)]
    )
    found: FloatArray = np.asarray(KroghInterpolator(places, values)(at)).T.copy()
    return found


def trace(baseline: TrainedModel, noises: list[LabelNoise], largest_t: float) -> list[Curve | None]:
    """Follow several groups from t = 0 to the smallest ε.

    Parameters
    ----------
    baseline : TrainedModel
        The unperturbed optimum, where all curves start.
    noises : list of LabelNoise
        One per group.
    largest_t : float
        The largest t, > 0.

    Returns
    -------
    list of Curve or None
        None if a node was not reached: then every cell is better solved by itself.
    """
    directions = np.column_stack([noise.shift(_channel_at(largest_t, noise)) for noise in noises])
    directions /= largest_t
    paths = _coarse_nodes(baseline, directions, largest_t)
    test_hessian = baseline.evaluation.hessian(baseline.theta)
    return [
        None if nodes is None else _Tracer(baseline, test_hessian, noise, largest_t, v).trace(nodes)
        for noise, v, nodes in zip(noises, directions.T, paths, strict=True)
    ]


def _channel_at(t: float, noise: LabelNoise) -> FloatArray:
    """Return the channel that reports each single other label with probability t."""
    k = len(noise.statistics)
    return np.eye(k) + t * (np.ones((k, k)) - k * np.eye(k))


def _coarse_nodes(
    baseline: TrainedModel, directions: FloatArray, largest_t: float
) -> list[list[Node] | None]:
    """Return the nodes 0, ½ and 1 of every group, all side by side."""
    theta, curvature = baseline.theta, baseline.curvature
    tangents = curvature.solve(directions)
    paths: list[list[Node] | None] = [[Node(0.0, theta, v, curvature)] for v in tangents.T]
    if baseline.problem.is_quadratic:
        return [
            [Node(float(x), theta + x**2 * largest_t * v, v, curvature) for x in lobatto(2)]
            for v in tangents.T
        ]
    for stop in lobatto(2)[1:]:
        alive = [g for g, nodes in enumerate(paths) if nodes is not None]
        known = [nodes for nodes in paths if nodes is not None]
        solution = minimise(
            baseline.problem,
            baseline.linear[:, None] + stop**2 * largest_t * directions[:, alive],
            _ahead(baseline.problem, known, stop, largest_t),
            curvatures=[_curvature_ahead(nodes, stop) for nodes in known],
        )
        hessians = iter(baseline.problem.hessians(solution.theta[:, solution.converged]))
        for column, g in enumerate(alive):
            if not solution.converged[column]:
                paths[g] = None
                continue
            at = solution.theta[:, column].copy()
            found = factorise(next(hessians))
            known[column].append(Node(float(stop), at, found.solve(directions[:, g]), found))
    return paths


def _ahead(
    problem: LinearObjective, paths: list[list[Node]], stop: float, largest_t: float
) -> FloatArray:
    """Return where the paths lead, no further than a Hessian can be believed."""
    last = np.column_stack([nodes[-1].theta for nodes in paths])
    ahead = np.column_stack([_hermite(nodes, np.array([stop]), largest_t)[:, 0] for nodes in paths])
    for column, nodes in enumerate(paths):
        if len(nodes) == 1:
            # At t = 0 the derivative by √t is 0: the tangent leads on.
            ahead[:, column] = nodes[0].theta + stop**2 * largest_t * nodes[0].tangent
    steps = ahead - last
    reach = np.maximum(problem.reach(steps), LONGEST_REACH)
    start: FloatArray = last + steps * (LONGEST_REACH / reach)
    return start


def _curvature_ahead(nodes: list[Node], stop: float) -> Curvature:
    """Return the Hessian that the nodes so far lead to."""
    if len(nodes) == 1:
        return nodes[0].curvature
    weights = _lagrange(_places(nodes), stop)
    try:
        return factorise(_mix(weights, [node.curvature.hessian for node in nodes]))
    except EstimateNotTrustworthyError:
        return nodes[-1].curvature


@dataclass(frozen=True, repr=False)
class _Tracer:
    """One group's curve, refined until it gives what it is needed for."""

    baseline: TrainedModel
    test_hessian: FloatArray
    noise: LabelNoise
    largest_t: float
    direction: FloatArray

    def trace(self, nodes: list[Node]) -> Curve | None:
        """Refine the curve through these nodes; None if the finest grid does not follow it."""
        curve = Curve(nodes, self.terms(nodes), self.largest_t)
        if self.baseline.problem.is_quadratic:
            return curve
        first, middle, last = nodes
        line = _Line(first, last, curve.terms[0], curve.terms[2], self.largest_t)
        if self.error(line, [middle], [curve.terms[1]]) <= _LARGEST_COARSE_ERROR:
            return curve
        coarser = np.inf
        for n_intervals in _LEVELS:
            added = self.added(curve, lobatto(n_intervals)[1::2])
            if added is None:
                return None
            terms = self.terms(added)
            error = self.error(curve, added, terms)
            pairs = [*zip(curve.nodes, curve.terms, strict=True), *zip(added, terms, strict=True)]
            pairs.sort(key=lambda pair: pair[0].at)
            curve = Curve([n for n, _ in pairs], [t for _, t in pairs], self.largest_t)
            shrinks = min(1.0, error / coarser) if np.isfinite(coarser) else np.inf
            if error <= _LARGEST_COARSE_ERROR or error * shrinks <= _LARGEST_ERROR:
                return curve
            coarser = error
        return None

    def added(self, curve: Curve, places: FloatArray) -> list[Node] | None:
        """Return the nodes of a finer grid; None if one was not reached."""
        problem, t = self.baseline.problem, places**2 * self.largest_t
        try:
            guesses = [factorise(curve.hessian(at)) for at in t]
        except EstimateNotTrustworthyError:
            return None
        solution = minimise(
            problem,
            self.baseline.linear[:, None] + self.direction[:, None] * t,
            curve.starts(t),
            curvatures=guesses,
        )
        if not solution.converged.all():
            return None
        nodes = []
        for at, theta, hessian in zip(
            places, solution.theta.T, problem.hessians(solution.theta), strict=True
        ):
            found = factorise(hessian)
            nodes.append(Node(float(at), theta.copy(), found.solve(self.direction), found))
        return nodes

    def terms(self, nodes: list[Node]) -> list[NodeTerms]:
        """Return the test Hessian and the noise terms, divided by t, of every node."""
        problem, evaluation = self.baseline.problem, self.baseline.evaluation
        roots = []
        for node in nodes:
            t = node.at**2 * self.largest_t or _NEARLY_ZERO * self.largest_t
            covariance = self.noise.covariance(_channel_at(t, self.noise)) / t
            roots.append(node.curvature.solve(root_of(covariance)))
        thirds = [np.zeros_like(self.direction) for _ in nodes]
        test_hessians = [self.test_hessian] * len(nodes)
        if not problem.is_quadratic:
            thetas = np.column_stack([node.theta for node in nodes])
            moved = [place for place, node in enumerate(nodes) if node.at > 0.0]
            for place, hessian in zip(moved, evaluation.hessians(thetas[:, moved]), strict=True):
                test_hessians[place] = hessian
            thirds = list(problem.thirds(thetas, roots, are_roots=True))
        return [NodeTerms(*each) for each in zip(test_hessians, thirds, roots, strict=True)]

    def error(self, curve: Curve | _Line, nodes: list[Node], terms: list[NodeTerms]) -> float:
        """Return what the curve gets wrong at other nodes, of the width of the interval there.

        The mean is ½ tr(H_te Σ) + ηᵀb, the variance ηᵀΣη + ½ tr((H_te Σ)²); the ends move by both.
        """
        thetas = np.column_stack([node.theta for node in nodes])
        largest = 0.0
        for node, own, gradient in zip(
            nodes, terms, self.baseline.evaluation.gradients_at(thetas).T, strict=True
        ):
            t = node.at**2 * self.largest_t
            covariance = self.noise.covariance(_channel_at(t, self.noise))
            try:
                guessed = factorise(curve.hessian(t))
            except EstimateNotTrustworthyError:
                return np.inf
            mean, sd = _moments(
                gradient, node.curvature, own.test_hessian, t * own.third, covariance
            )
            other, other_sd = _moments(
                gradient, guessed, curve.test_hessian(t), curve.third(t), covariance
            )
            if sd > 0.0:
                wrong = max(abs(other - mean), 0.5 * _WIDTH * abs(other_sd - sd))
                largest = max(largest, wrong / (_WIDTH * sd))
        return largest


def _moments(
    gradient: FloatArray,
    curvature: Curvature,
    test_hessian: FloatArray,
    third: FloatArray,
    covariance: FloatArray,
) -> tuple[float, float]:
    """Return what noise adds to the mean of the test loss, and its standard deviation."""
    sigma = curvature.sandwich(covariance)
    bent = test_hessian @ sigma
    mean = 0.5 * np.trace(bent) - 0.5 * float(gradient @ curvature.solve(third))
    variance = float(gradient @ sigma @ gradient) + 0.5 * float(np.sum(bent * bent.T))
    return float(mean), math.sqrt(max(variance, 0.0))
