# SPDX-License-Identifier: Apache-2.0
"""A group's whole curve over ε from a handful of points.

With randomised response the expected perturbed objective moves along a line: its linear term is
linear₀ + t·π, where t is the chance of each other label. The minimiser θ(t), its Hessian and the noise
terms are smooth in t, so they are computed at the nodes of a Chebyshev–Lobatto grid, as many as the
curve's own bend asks for, and polynomials give them everywhere between. θ is then finished by the
solver at every ε, so that its accuracy does not depend on the nodes; the Hessian and the noise terms,
which are needed to a fraction of a per cent, are taken from the polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.interpolate import KroghInterpolator

from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence.held_out import HeldOut
from epsilens.influence.label_noise import LabelNoise
from epsilens.influence.linear_noise import root_of
from epsilens.influence.record_noise import NoiseForms
from epsilens.models import Curvature, factorise, minimise
from epsilens.models.objective import LinearObjective
from epsilens.models.solver import LONGEST_REACH

__all__ = ["Curve", "Ground", "Node", "lobatto", "trace"]

FloatArray = NDArray[np.float64]

# What a coarser grid gets wrong at the nodes that a finer one adds; the finer one errs about ten times
# less.
_LARGEST_ERROR = 0.02
_LEVELS = (4, 8)
MOST_NODES = _LEVELS[-1] + 1
_NEARLY_ZERO = 1e-6


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
    theta, tangent : arrays of shape (K·p,)
        θ(t) and its derivative H⁻¹π.
    curvature : Curvature
    """

    at: float
    theta: FloatArray
    tangent: FloatArray
    curvature: Curvature


@dataclass(frozen=True, repr=False)
class Curve:
    """Everything that a cell needs, as polynomials in t.

    Attributes
    ----------
    nodes : list of Node, t ascending
    test_hessians : array of shape (n_nodes, K·p, K·p)
    thirds : array of shape (n_nodes, K·p)
        ∇³F[Σ]/t.
    roots : list of arrays of shape (K·p, r)
        R with RRᵀ = Σ/t, whose xᵀΣx/t of the test records are mixed like all else.
    """

    nodes: list[Node]
    test_hessians: FloatArray
    thirds: FloatArray
    roots: list[FloatArray]

    def noise(self, t: FloatArray) -> NoiseForms:
        """Return xᵀΣx of the test records at every t."""
        return NoiseForms(self.roots, np.array([at * self.weights(at) for at in t]), "root")

    def weights(self, t: float) -> FloatArray:
        """Return the weight of every node's value at t (Lagrange)."""
        return _lagrange(np.array([node.at for node in self.nodes]), t)

    def hessian(self, t: float) -> FloatArray:
        """Return the Hessian of the training objective."""
        return _mix(self.weights(t), [node.curvature.hessian for node in self.nodes])

    def starts(self, t: FloatArray) -> FloatArray:
        """Return θ(t) by the nodes' values and tangents, (K·p, n)."""
        return _hermite(self.nodes, t)


def _lagrange(nodes: FloatArray, t: float) -> FloatArray:
    weights = np.ones(len(nodes))
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        weights[k] = np.prod((t - others) / (node - others))
    return weights


def _mix(weights: FloatArray, values: list[FloatArray]) -> FloatArray:
    total: FloatArray = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total += weight * value
    return total


def _hermite(nodes: list[Node], t: FloatArray) -> FloatArray:
    at = np.repeat([node.at for node in nodes], 2)
    values = np.array([value for node in nodes for value in (node.theta, node.tangent)])
    found: FloatArray = np.asarray(KroghInterpolator(at, values)(t)).T.copy()
    return found


@dataclass(frozen=True, repr=False)
class Ground:
    """Where all curves start: the unperturbed optimum.

    Attributes
    ----------
    problem : Problem
    evaluation : Evaluation
    theta : array of shape (K·p,)
    curvature : Curvature
    linear : array of shape (K·p,)
        The unperturbed linear term.
    test_hessian : array of shape (K·p, K·p)
    """

    problem: LinearObjective
    evaluation: HeldOut
    theta: FloatArray
    curvature: Curvature
    linear: FloatArray
    test_hessian: FloatArray


def trace(
    ground: Ground,
    noises: list[LabelNoise],
    channel_at: Callable[[float], FloatArray],
    furthest: float,
) -> list[Curve | None]:
    """Follow several groups from t = 0 to the smallest ε.

    Parameters
    ----------
    ground : Ground
    noises : list of LabelNoise
        One per group.
    channel_at : callable
        From t to the channel.
    furthest : float
        The largest t, > 0.

    Returns
    -------
    list of Curve or None
        None if a node was not reached: then every cell is better solved by itself.
    """
    directions = np.column_stack([noise.shift(channel_at(furthest)) for noise in noises])
    directions /= furthest
    curves: list[Curve | None] = []
    for noise, direction, nodes in zip(
        noises, directions.T, _coarse_nodes(ground, directions, furthest), strict=True
    ):
        fine = _fine_nodes(ground, direction, nodes, furthest)
        curve = None if fine is None else _with_noise(ground, fine, noise, channel_at, furthest)
        curves.append(curve)
    return curves


def _coarse_nodes(
    ground: Ground, directions: FloatArray, furthest: float
) -> list[list[Node] | None]:
    """Return the nodes 0, ½ and 1 (0 and 1 of a straight line) of every group, all side by side."""
    theta, curvature = ground.theta, ground.curvature
    tangents = curvature.solve(directions)
    paths: list[list[Node] | None] = [[Node(0.0, theta, v, curvature)] for v in tangents.T]
    if ground.problem.is_quadratic:
        return [
            [Node(0.0, theta, v, curvature), Node(furthest, theta + furthest * v, v, curvature)]
            for v in tangents.T
        ]
    for stop in furthest * lobatto(2)[1:]:
        alive = [g for g, nodes in enumerate(paths) if nodes is not None]
        known = [nodes for nodes in paths if nodes is not None]
        solution = minimise(
            ground.problem,
            ground.linear[:, None] + stop * directions[:, alive],
            _ahead(ground.problem, known, stop),
            curvatures=[_curvature_ahead(nodes, stop) for nodes in known],
        )
        hessians = iter(ground.problem.hessians(solution.theta[:, solution.converged]))
        for column, g in enumerate(alive):
            if not solution.converged[column]:
                paths[g] = None
                continue
            at = solution.theta[:, column].copy()
            found = factorise(next(hessians))
            known[column].append(Node(float(stop), at, found.solve(directions[:, g]), found))
    return paths


def _ahead(problem: LinearObjective, paths: list[list[Node]], stop: float) -> FloatArray:
    """Return where the paths lead, no further than a Hessian can be believed."""
    last = np.column_stack([nodes[-1].theta for nodes in paths])
    steps = np.column_stack([_hermite(nodes, np.array([stop]))[:, 0] for nodes in paths]) - last
    reach = np.maximum(problem.reach(steps), LONGEST_REACH)
    ahead: FloatArray = last + steps * (LONGEST_REACH / reach)
    return ahead


def _curvature_ahead(nodes: list[Node], stop: float) -> Curvature:
    """Return the Hessian that the nodes so far lead to."""
    if len(nodes) == 1:
        return nodes[0].curvature
    weights = _lagrange(np.array([node.at for node in nodes]), stop)
    try:
        return factorise(_mix(weights, [node.curvature.hessian for node in nodes]))
    except EstimateNotTrustworthyError:
        return nodes[-1].curvature


def _fine_nodes(
    ground: Ground, direction: FloatArray, nodes: list[Node] | None, furthest: float
) -> list[Node] | None:
    """Add nodes until the Hessian between them is known well enough."""
    if nodes is None or ground.problem.is_quadratic:
        return nodes
    ends = [nodes[0].curvature.hessian, nodes[2].curvature.hessian]
    error = _distance(_mix(np.array([0.5, 0.5]), ends), nodes[1].curvature)
    for n_intervals in _LEVELS:
        if error <= _LARGEST_ERROR:
            break
        grid = furthest * lobatto(n_intervals)
        refined = _refine(ground.problem, ground.linear, direction, nodes, grid)
        if refined is None:
            return None
        nodes, error = refined
    # Nearly separable data bend more than the finest grid can follow.
    return nodes if error <= _LARGEST_ERROR else None


def _refine(
    problem: LinearObjective,
    linear: FloatArray,
    direction: FloatArray,
    nodes: list[Node],
    grid: FloatArray,
) -> tuple[list[Node], float] | None:
    """Add the nodes of a finer grid; return also how wrong the coarser one was there."""
    coarse = np.array([node.at for node in nodes])
    added = grid[1::2]
    hessians = [node.curvature.hessian for node in nodes]
    guesses = [_mix(_lagrange(coarse, t), hessians) for t in added]
    solution = minimise(
        problem,
        linear[:, None] + direction[:, None] * added,
        _hermite(nodes, added),
        curvatures=[factorise(guess) for guess in guesses],
    )
    if not solution.converged.all():
        return None
    error = 0.0
    result = list(nodes)
    taken = problem.hessians(solution.theta)
    for t, guess, theta, hessian in zip(added, guesses, solution.theta.T, taken, strict=True):
        found = factorise(hessian)
        error = max(error, _distance(guess, found))
        result.append(Node(float(t), theta.copy(), found.solve(direction), found))
    return sorted(result, key=lambda node: node.at), error


def _distance(guess: FloatArray, curvature: Curvature) -> float:
    """Return the root mean square of the relative errors in all directions."""
    half = scipy.linalg.solve_triangular(
        curvature.factor, guess - curvature.hessian, lower=True, check_finite=False
    )
    whole = scipy.linalg.solve_triangular(curvature.factor, half.T, lower=True, check_finite=False)
    return float(np.linalg.norm(whole) / np.sqrt(len(whole)))


def _with_noise(
    ground: Ground,
    nodes: list[Node],
    noise: LabelNoise,
    channel_at: Callable[[float], FloatArray],
    furthest: float,
) -> Curve:
    """Add the test Hessian and the noise terms, divided by t, to every node."""
    problem, evaluation = ground.problem, ground.evaluation
    thirds = np.zeros((len(nodes), len(ground.theta)))
    roots = []
    for node in nodes:
        t = node.at or _NEARLY_ZERO * furthest
        roots.append(node.curvature.solve(root_of(noise.covariance(channel_at(t)) / t)))
    test_hessians = [ground.test_hessian] * len(nodes)
    if not problem.is_quadratic:
        thetas = np.column_stack([node.theta for node in nodes])
        test_hessians[1:] = evaluation.hessians(thetas[:, 1:])
        thirds[:] = problem.thirds(thetas, roots, are_roots=True)
    return Curve(nodes, np.array(test_hessians), thirds, roots)
