// SPDX-License-Identifier: Apache-2.0
// From limits to a budget: the rules of `decide`. Cells are those of one group, ε ascending.
"use strict";
const decisionRule = (() => {
  // The smallest budget whose upper end is accepted there and at every larger budget.
  function smallestWithin(cells, loss) {
    let found = null;
    for (const cell of [...cells].reverse()) {
      if (cell.high === null || !(cell.high <= loss)) break;
      found = cell;
    }
    return found;
  }

  // The last budget such that it and every smaller one stay within a limit.
  function lastWithin(cells, end, limit) {
    const beyond = cells.findIndex((cell) => cell.risk[end] === null || !(cell.risk[end] <= limit));
    return (beyond < 0 ? cells.length : beyond) - 1;
  }

  // The largest budget within the limit on the attack, and what it rests on: proof, or, where that
  // counts, the upper end of what was measured.
  function largestWithin(cells, { rate, advantage, measuredCounts }) {
    if (rate === null && advantage === null) return [cells[cells.length - 1], null];
    const [end, limit] = rate === null ? ["advantage_value", advantage] : ["ceiling_value", rate];
    const proven = lastWithin(cells, end, limit);
    const measured = rate === null ? -1 : lastWithin(cells, "high_value", rate);
    if (measured > proven && measuredCounts) return [cells[measured], "measured"];
    return proven < 0 ? [null, null] : [cells[proven], "proven"];
  }

  // The advantage that limits: the document's own, or the default where no limit is typed.
  function advantageLimit({ loss, rate, own, usual }) {
    return rate === null ? own ?? (loss === null ? usual : null) : null;
  }

  // `loss`, `rate` and `advantage` are numbers, or null where there is no such limit; null without any.
  // From too few runs no budget follows that keeps a limit on the loss: `unsure` is the one that would.
  function solve(cells, { loss, rate, advantage, measuredCounts, hasFewRuns = false }) {
    const hasAttack = rate !== null || advantage !== null;
    if (loss === null && !hasAttack) return null;
    const least = loss === null ? cells[0] : smallestWithin(cells, loss);
    const [most, rests] = largestWithin(cells, { rate, advantage, measuredCounts });
    const meets = least !== null && most !== null && cells.indexOf(least) <= cells.indexOf(most);
    const best = !meets ? null : loss === null ? most : least;
    const isUnsure = hasFewRuns && loss !== null && best !== null;
    const [cell, unsure] = isUnsure ? [null, best] : [best, null];
    const byProof = cell !== null && rate !== null && cell.risk.ceiling_value !== null && cell.risk.ceiling_value <= rate;
    return {
      cells, cell, unsure, least, most, hasLoss: loss !== null, hasAttack, advantage,
      rests: rests !== null && byProof ? "proven" : rests,
    };
  }

  return { advantageLimit, solve };
})();
