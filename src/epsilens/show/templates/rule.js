// SPDX-License-Identifier: Apache-2.0
// From limits to a budget: the rules of `decide`. Cells are those of one group and mechanism, ε ascending.
// A limit has an `end`, the field that it is compared with, and a `limit`; null without one.
"use strict";
const decisionRule = (() => {
  // The smallest budget whose upper end is accepted there and at every larger budget.
  function smallestWithin(cells, cost) {
    let found = null;
    for (const cell of [...cells].reverse()) {
      if (cell[cost.end] === null || !(cell[cost.end] <= cost.limit)) break;
      found = cell;
    }
    return found;
  }

  // Whether a limit on the cost cannot be compared: the largest budget has no cost, though smaller ones have.
  function isUnjudged(cells, cost) {
    return cost !== null && cells.at(-1)[cost.end] === null && cells.some((cell) => cell[cost.end] !== null);
  }

  // The last budget such that it and every smaller one stay within a limit.
  function lastWithin(cells, end, limit) {
    const beyond = cells.findIndex((cell) => cell.risk[end] === null || !(cell.risk[end] <= limit));
    return (beyond < 0 ? cells.length : beyond) - 1;
  }

  // The largest budget within the limit on the attack, and what it rests on: proof, or, where that counts, the
  // upper end of what was measured. Where nobody is trusted, whoever collects the answers attacks too.
  function largestWithin(cells, attack, measuredCounts, trust) {
    if (attack === null) return [cells[cells.length - 1], null];
    const proven = lastWithin(cells, attack.end, attack.limit);
    const measured = attack.end === "ceiling_value" ? lastWithin(cells, trust === "nobody" ? "held_high_value" : "high_value", attack.limit) : -1;
    if (measured > proven && measuredCounts) return [cells[measured], "measured"];
    return proven < 0 ? [null, null] : [cells[proven], "proven"];
  }

  // The budget of one mechanism; null without any limit. From too few runs no budget follows that keeps a
  // limit on the cost: `unsure` is the one that would.
  function solve(cells, { cost, attack, measuredCounts = false, hasFewRuns = false, trust = "curator" }) {
    if (cost === null && attack === null) return null;
    const least = cost === null ? cells[0] : smallestWithin(cells, cost);
    const [most, rests] = largestWithin(cells, attack, measuredCounts, trust);
    const meets = least !== null && most !== null && cells.indexOf(least) <= cells.indexOf(most);
    const best = !meets ? null : cost === null ? most : least;
    const isUnsure = hasFewRuns && cost !== null && best !== null;
    const [cell, unsure] = isUnsure ? [null, best] : [best, null];
    const isRate = attack?.end === "ceiling_value";
    const byProof = cell !== null && isRate && cell.risk.ceiling_value !== null && cell.risk.ceiling_value <= attack.limit;
    return { cells, cell, unsure, least, most, cost, attack, rests: rests !== null && byProof ? "proven" : rests };
  }

  // --- Several mechanisms ---

  const known = (value) => value ?? Infinity;
  const gained = (cell) => cell.risk.advantage_value ?? 1;

  // The budget that comes nearest to limits that none meets, and how far it is off.
  function nearest(curve, { cost }) {
    const within = curve.cells.filter((cell) => cost === null || known(cell[cost.end]) <= cost.limit);
    const end = cost?.end ?? "high";
    const least = (cells, far) => cells.reduce((best, cell) => (far(cell) < far(best) ? cell : best));
    if (within.length) { const cell = least(within, gained); return { cell, far: [0, gained(cell)] }; }
    const cell = least(curve.cells, (one) => known(one[end]));
    return { cell, far: [1, known(cell[end])] };
  }

  function before(one, other) {
    const place = one.findIndex((value, n) => value !== other[n]);
    return place >= 0 && one[place] < other[place];
  }

  // With a limit on the cost the smallest advantage comes first, then the lowest cost; with a limit on the
  // attack alone the lowest cost. Gives the mechanism with its budget, or without one the nearest miss.
  // Mechanisms whose cost cannot be compared with its limit are `unjudged`.
  function choose(curves, limits, { trust, protects, named, isCostKnown, measuredCounts = false, hasFewRuns = false }) {
    const end = limits.cost?.end ?? "high";
    const eligible = curves.filter((curve) => curve.cells.length && (trust === "curator" || curve.trust === "nobody") &&
      (protects === "answer" || curve.protects === "record") && (named === null || named.includes(curve.name)));
    let best = null;
    for (const curve of eligible) {
      const { cell, rests = null } = solve(curve.cells, { ...limits, measuredCounts, trust }) ?? {};
      // Retrainings are of randomised response; what others cost is not known without declared columns.
      const isHeld = limits.cost === null || (curve.trust === "nobody" ? !hasFewRuns : isCostKnown);
      const pair = cell && (limits.cost ? [gained(cell), known(cell[end])] : [known(cell[end]), gained(cell)]);
      const miss = nearest(curve, limits);
      const rank = cell ? [isHeld ? 0 : 0.5, ...pair] : [1, ...miss.far];
      if (best === null || before(rank, best.rank)) best = { curve, cell, rests, miss: miss.cell, rank, isHeld };
    }
    // From too few runs no budget follows that keeps a limit on the cost.
    const isUnsure = best !== null && best.cell !== null && !best.isHeld && best.curve.trust === "nobody";
    const beside = { eligible, unjudged: eligible.filter((curve) => isUnjudged(curve.cells, limits.cost)) };
    return best && { ...best, ...beside, ...(isUnsure ? { cell: null, unsure: best.cell } : {}) };
  }

  return { solve, choose };
})();
