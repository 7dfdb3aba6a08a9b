// SPDX-License-Identifier: Apache-2.0
// Several mechanisms: the limits lead to one of them, and the chart shows all. Nothing is rounded here.
"use strict";
(() => {
  const { page, byId, write } = firstScreen;
  const curves = page.mechanisms;
  if (!curves.length) return;
  const [picture, place, trust, mechanism, look, words] =
    ["mechanism-picture", "mechanism-chart", "trust", "look-mechanism", "look-epsilon", "within"].map(byId);
  const [gainGrip, costGrip] = ["advantage", "cost"].map((name) => document.querySelector(`[data-grip=${name}]`));
  const NARROW = 560;
  const NEAR = 8;
  // A budget that reaches so much of the limit on the attack is at it.
  const NEARLY = 0.98;

  let outcome = page.limits.outcome;
  let view = null;
  let drawn = null;
  let limits = null;
  // What the limits lead to, and what is looked at: a mechanism and one of its budgets.
  let solved = null;
  let shown = null;

  const unit = () => (outcome === "loss" ? "loss" : "mistakes");
  const isFirst = () => !firstScreen.isChanged() && (trust === null || trust.value === page.trust);
  const own = () => {
    const curve = curves.find((one) => one.name === page.chosen.mechanism);
    const cell = curve?.cells.find((one) => one.budget === (page.chosen.epsilon === "inf" ? Infinity : page.chosen.epsilon));
    return cell ? { curve, cell } : null;
  };

  function solve() {
    limits = firstScreen.read();
    if (limits === undefined) { showUnread(); return; }
    const found = decisionRule.choose(curves, limits, {
      trust: trust?.value ?? "nobody", protects: page.protects, named: page.named, isCostKnown: page.is_cost_known,
      measuredCounts: page.measured, hasFewRuns: page.fewest_runs !== null,
    });
    // The limits of the document lead to what the document says.
    solved = isFirst() ? own() ?? { ...found, cell: null } : found;
    words.dataset.solved = solved?.cell ? `${solved.curve.name} ${solved.cell.epsilon}` : "none";
    byId("reset").hidden = isFirst();
    for (const id of ["own-advice", "advice-title"]) byId(id).hidden = !isFirst();
    byId("own-limits").hidden = isFirst();
    for (const part of document.querySelectorAll(".first-limits")) part.hidden = isFirst();
    if (solved?.cell) show(solved.curve, solved.cell);
    else showNothing();
    move();
  }

  const limitText = () => (limits.cost && limits.attack ? "both limits" : "the limit");
  // The limit on the attack as an advantage in per cent; null without one.
  const gainLimit = () => (!limits?.attack ? null : limits.attack.kind === "rate" ? firstScreen.share(100 * limits.attack.limit, "advantage") : 100 * limits.attack.limit);

  // What moved limits may have beyond the budgets that are stored: `decide` tries one more, just within the
  // limit on the attack, and it trains again where an estimate failed its check.
  function remarks() {
    if (isFirst() || !solved || solved.unsure) return [];
    const these = limits.cost && limits.attack ? "these limits" : "this limit";
    const unjudged = solved.unjudged.map(({ title, cells }) => `The cost of ${title} at ε = ${cells.at(-1).epsilon} is not known, so it is not compared with the limit. \`epsilens decide\` with ${these} measures it.`);
    const isOpen = limits.attack !== null && (solved.cell
      ? limits.cost === null && solved.curve.trust === "curator" && 100 * solved.cell.risk.advantage_value < NEARLY * gainLimit()
      : solved.eligible.some((curve) => curve.trust === "curator"));
    const nearest = !isOpen ? [] : solved.cell ? [`Nearest computed budget. \`epsilens decide\` with ${these} may find a better one.`]
      : [`\`epsilens decide\` with ${these} tries further budgets and may find one.`];
    return [...nearest, ...unjudged];
  }

  // Between backquotes stands what is typed.
  function say(texts) {
    const pieces = texts.join(" ").split("`");
    words.replaceChildren(...pieces.map((text, n) => (n % 2 ? Object.assign(document.createElement("code"), { textContent: text }) : text)).filter(Boolean));
  }

  // What comes nearest, and in which way it misses: as `decide` says it.
  function unmet({ title }, miss) {
    const { attack, cost } = limits;
    if (attack?.kind === "rate" && page.baseline !== null && page.baseline >= attack.limit) {
      return `No release keeps the attack limit of ${(100 * attack.limit).toFixed(1)}%. From the rest of the data an attacker guesses up to ${page.baseline_text} of the answers (measured). Raise the limit, or limit what becomes guessable.`;
    }
    const [said, named] = [`No computed budget meets ${limitText()}.`, `${title} at ε = ${miss.epsilon}`];
    const least = `gives away the least: an advantage of at most ${miss.risk.advantage}.`;
    const release = `One release ${miss.release[cost?.kind === "loss" || miss.mistakes_high === null ? "loss" : "mistakes"]}.`;
    const begun = `${named[0].toUpperCase()}${named.slice(1)}`;
    if (!cost) return `${said} ${begun} ${least} ${release}`;
    if (miss[cost.end] !== null && miss[cost.end] <= cost.limit) return `${said} Within the cost limit ${named} ${least} ${release}`;
    return `${said} No ε is within the cost limit. ${begun} costs the least. ${release}`;
  }

  // With an ε for each group the text is longer than a number.
  function fill(text) {
    if (document.activeElement !== look) look.value = text;
    look.style.width = text.length > 8 ? `${text.length + 2}ch` : "";
  }

  // What belongs to the answer that is shown: its command, and what it leaves open.
  function showConsequences(curve, cell, isSolved) {
    const command = byId("next-command");
    if (command) {
      byId("part-next").hidden = !cell?.command;
      command.replaceChildren(...(cell?.command ?? "").split(" ").flatMap((word, n) => [n ? " " : "", Object.assign(document.createElement("span"), { className: "whole", textContent: word })]));
      byId("next-note").hidden = isSolved;
    }
    if (curve) for (const part of document.querySelectorAll("[data-open-to]")) part.hidden = part.dataset.openTo !== `${curve.trust} ${curve.protects}`;
    const holder = cell?.holder ?? "";
    write("holder", holder);
    if (byId("held")) byId("held").hidden = !holder;
  }

  // A limit that cannot be read leads to nothing.
  function showUnread() {
    solved = shown = null;
    delete words.dataset.solved;
    write("advice", "Nothing is recommended while a limit cannot be used as it is typed.");
    words.textContent = "";
    byId("reset").hidden = false;
    firstScreen.showFacts([]);
    showConsequences(null, null, false);
    move();
  }

  function showNothing() {
    const miss = solved?.unsure ? null : solved?.miss;
    shown = miss ? { curve: solved.curve, cell: miss } : null;
    write("advice", isFirst() ? page.chosen.sentence : solved?.unsure ? `Fewer than ${page.fewest_runs} retrainings a cell are too few to be sure, so no ε is recommended.` : miss
      ? unmet(solved.curve, miss)
      : "No mechanism can be recommended under these conditions.");
    const nearest = miss ? [`The facts are those of ${solved.curve.title} at ε = ${miss.epsilon}, which does not meet ${limitText()}.`] : [];
    say([...nearest, ...remarks()]);
    firstScreen.showFacts(miss?.facts ?? []);
    showConsequences(miss ? solved.curve : null, null, false);
    if (miss) mechanism.value = solved.curve.name;
    fill(miss?.epsilon ?? "");
    write("look-nearest", "");
  }

  function show(curve, cell) {
    shown = { curve, cell };
    const isSolved = solved?.cell === cell;
    const isOwn = isSolved && isFirst();
    const isRate = limits?.attack?.kind === "rate";
    const solvedSentence = () => (solved.rests === "measured" ? cell.measured_sentence : isRate ? cell.rate_sentence : cell.sentence);
    write("advice", isOwn ? page.chosen.sentence : isSolved ? solvedSentence() : cell.looked[isRate ? 1 : 0]);
    say(isSolved ? remarks() : ["You are looking at a budget that is not the recommended one."]);
    byId("reset").hidden = isSolved && isFirst();
    firstScreen.showFacts(cell.facts);
    showConsequences(curve, cell, isSolved);
    mechanism.value = curve.name;
    fill(cell.epsilon);
    write("look-nearest", "");
  }

  // --- The chart ---

  const width = () => (place.clientWidth < NARROW ? "narrow" : "wide");
  const costOf = (cell) => cell[unit()];

  // Sets the ring and the lines; the chart itself is not drawn anew.
  function move() {
    if (!view) return;
    const gain = gainLimit();
    const isOfUnit = limits?.cost && limits.cost.kind === unit();
    const known = shown && costOf(shown.cell) !== null;
    const words = limits?.attack ? `limit ${+(100 * limits.attack.limit).toPrecision(3)}%${limits.attack.kind === "rate" ? " in all" : ""}` : "";
    view.signal("advantage_limit", gain).signal("advantage_limit_words", words).signal("cost_limit", isOfUnit ? limits.cost.limit : null)
      .signal("shown_mechanism", shown?.curve.name ?? null)
      .signal("shown_advantage", known ? 100 * shown.cell.risk.advantage_value : null)
      .signal("shown_cost", known ? costOf(shown.cell) : null)
      .signal("cost_in", outcome).run();
    placeGrips();
  }

  const matrix = () => place.querySelector("svg g").getScreenCTM();
  const inPlot = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix().inverse());

  function placeGrips() {
    const [gain, cost] = ["advantage_limit", "cost_limit"].map((name) => view.signal(name));
    const box = picture.getBoundingClientRect();
    const at = (x, y) => {
      const point = new DOMPoint(x, y).matrixTransform(matrix());
      return { left: `${point.x - box.left}px`, top: `${point.y - box.top}px` };
    };
    const right = Math.max(...view.scale("x").range());
    const [top, bottom] = view.scale("y").range().toSorted((one, other) => one - other);
    // A limit that is not set has its handle at the far end, to be dragged from there.
    gainGrip.hidden = firstScreen.attack === null;
    gainGrip.classList.toggle("unset", gain === null);
    Object.assign(gainGrip.style, at(gain === null ? right : view.scale("x")(gain), top));
    const y = cost === null ? top : view.scale("y")(cost);
    const isOther = limits?.cost && limits.cost.kind !== unit();
    costGrip.hidden = firstScreen.cost === null || isOther || y < top - 1 || y > bottom + 1;
    costGrip.classList.toggle("unset", cost === null);
    Object.assign(costGrip.style, at(right - 16, y));
  }

  async function draw() {
    const wanted = `${unit()} ${width()}`;
    if (drawn === wanted) { move(); return; }
    drawn = wanted;
    place.dataset.width = width();
    const spec = page.mechanism_charts[unit()][width()];
    const result = await vegaEmbed(place, spec, { mode: "vega", renderer: "svg", actions: false, ast: true });
    if (drawn !== wanted) return;
    view = result.view;
    await view.runAsync();
    const svg = place.querySelector("svg");
    // The picture around it says in words what it shows.
    svg.setAttribute("aria-hidden", "true");
    if (!svg.getAttribute("viewBox")) svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    nameOthers(spec.usermeta?.unnamed ?? []);
    move();
    document.documentElement.dataset.mechanisms = outcome;
  }

  // Lines whose name had no room in the chart.
  function nameOthers(unnamed) {
    byId("unnamed").hidden = !unnamed.length;
    byId("unnamed").replaceChildren(...unnamed.map(({ title, dash }) => {
      const row = document.createElement("li");
      row.innerHTML = '<svg viewBox="0 0 34 14" width="34" height="14" aria-hidden="true"><line x1="0" y1="7" x2="34" y2="7" stroke="#4b5563" stroke-width="2.2"/></svg>';
      row.querySelector("line").setAttribute("stroke-dasharray", dash.join(" "));
      row.append(title);
      return row;
    }));
  }

  // --- Looking, and moving the limits ---

  const drawable = () => curves.flatMap((curve) => curve.cells.filter((cell) => costOf(cell) !== null).map((cell) => ({ curve, cell })));

  function nearestTo(point) {
    const [across, up] = ["x", "y"].map((name) => view.scale(name));
    const far = ({ cell }) => Math.hypot(across(100 * cell.risk.advantage_value) - point.x, up(costOf(cell)) - point.y);
    return drawable().reduce((best, one) => (far(one) < far(best) ? one : best));
  }

  let dragged = null;

  function limitAt(event) {
    if (event.target === gainGrip) return "advantage";
    if (event.target === costGrip) return "cost";
    if (event.pointerType !== "mouse") return null;
    const point = inPlot(event);
    const [gain, cost] = ["advantage_limit", "cost_limit"].map((name) => view.signal(name));
    if (gain !== null && Math.abs(view.scale("x")(gain) - point.x) < NEAR) return "advantage";
    return cost !== null && Math.abs(view.scale("y")(cost) - point.y) < NEAR ? "cost" : null;
  }

  // Beyond the end of its axis a limit is taken away. Words above the chart may move it meanwhile: what counts is
  // where it was.
  function pull(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(dragged.inverse);
    if (dragged.limit === "advantage") {
      const gain = point.x >= Math.max(...view.scale("x").range()) ? null : view.scale("x").invert(Math.max(point.x, 0));
      const isRate = firstScreen.attackKind.value === "rate";
      firstScreen.drag(firstScreen.attack, gain !== null && isRate ? firstScreen.share(gain, "rate") : gain, { least: 0.5, most: 99.5 });
    } else {
      const cost = point.y <= Math.min(...view.scale("y").range()) ? null : view.scale("y").invert(point.y);
      firstScreen.drag(firstScreen.cost, cost, { least: 0, most: Infinity });
    }
  }

  function lookAt(event) {
    const found = nearestTo(inPlot(event));
    if (found.cell === shown?.cell) return;
    show(found.curve, found.cell);
    move();
  }

  picture.addEventListener("pointerdown", (event) => {
    if (!view || event.button !== 0) return;
    dragged = { limit: limitAt(event), inverse: matrix().inverse() };
    if (!dragged.limit) lookAt(event);
    else { event.preventDefault(); picture.setPointerCapture(event.pointerId); }
  });
  picture.addEventListener("pointermove", (event) => {
    if (!view) return;
    if (event.buttons !== 1) picture.dataset.near = limitAt(event) ?? "";
    else if (dragged?.limit) pull(event);
    else if (dragged) lookAt(event);
  });
  for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, () => { dragged = null; });

  const byBudget = (curve, budget) => curve.cells.reduce((best, cell) =>
    (Math.abs(Math.log(cell.budget / budget)) < Math.abs(Math.log(best.budget / budget)) ? cell : best));

  mechanism.addEventListener("change", () => {
    const curve = curves.find((one) => one.name === mechanism.value);
    const { cell } = decisionRule.solve(curve.cells, limits) ?? {};
    show(curve, cell ?? byBudget(curve, shown?.cell.budget ?? 1));
    move();
  });
  look.addEventListener("input", () => {
    const wanted = typedNumbers.tell(look);
    if (typeof wanted !== "number" || !shown) return;
    const cell = byBudget(shown.curve, wanted);
    show(shown.curve, cell);
    if (Math.abs(cell.budget / wanted - 1) > 0.005) write("look-nearest", `Nearest computed: ε = ${cell.epsilon}.`);
    move();
  });
  // The arrow keys go from budget to budget, in the box and in the chart.
  look.addEventListener("keydown", (event) => {
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (by === undefined || !shown) return;
    event.preventDefault();
    const { cells } = shown.curve;
    const cell = cells[Math.min(Math.max(cells.indexOf(shown.cell) + by, 0), cells.length - 1)];
    show(shown.curve, cell);
    look.value = cell.epsilon;
    move();
  });
  look.addEventListener("blur", () => { if (shown) look.value = shown.cell.epsilon; write("look-nearest", ""); });

  firstScreen.onChange(solve);
  trust?.addEventListener("change", solve);
  byId("reset").addEventListener("click", () => {
    if (trust) trust.value = page.trust;
    firstScreen.restore();
    (firstScreen.attack ?? look).focus();
  });
  for (const choice of document.querySelectorAll("input[name=outcome]")) {
    choice.addEventListener("change", async () => {
      outcome = choice.value in page.mechanism_charts || choice.value === "accuracy" ? choice.value : outcome;
      if (outcome !== choice.value) return;
      firstScreen.setCostKind(unit());
      await draw();
    });
  }
  new ResizeObserver(() => { if (view) { if (drawn.endsWith(width())) placeGrips(); else draw(); } }).observe(place);
  solve();
  draw();
})();
