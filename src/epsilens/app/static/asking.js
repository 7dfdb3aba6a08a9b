// SPDX-License-Identifier: Apache-2.0
// The question: a table, its columns, who, and what is randomised.
import { alarm, byId, get, make, post, remove, upload } from "./api.js";
import { asTyped, epsilonGrid, hasWrongField, number, openTo, tellFields, wireFields, withPoints } from "./fields.js";
import { chosenReading, fillReading, sayReading, setReading } from "./reading.js";

const KINDS = { numeric: "numbers", categorical: "categories", binary: "two answers", constant: "one answer", identifier: "identifiers" };

let session = null;
let state = fresh();
let isWired = false;
// How often a table was chosen or looked at: what was asked for before is not heeded.
let looks = 0;
// A file that could not be read, until it is read otherwise.
let refused = null;
// The others were named in the command: they are forgotten here and stay where they are.
let uploaded = new Set();

// By column in maps: a column may be called `constructor`.
function fresh(table = "") {
  return { table, columns: [], comparedAs: new Map(), use: new Map(), bins: new Map(), groups: [], protect: [], declared: [], label: "", identities: [], identity: "", maskLabel: "" };
}

// --- Tables ---

export async function enter(known, again) {
  session = known;
  if (!isWired) wire();
  clearRefusal();
  byId("suffixes").title = session.suffixes.join(", ");
  byId("suffixes").textContent = `CSV, Excel, SPSS, Stata, SAS, Parquet or Arrow, at most ${Math.floor(session.max_upload / 2 ** 20)} MB`;
  byId("kept-in").textContent = session.state ? `Tables and studies are kept in ${session.state} until you delete them.` : "";
  document.title = "epsilens";
  if (again) await recall(again);
  else if (!state.table) await listTables(session.given ?? "");
  else await listTables(state.table);
}

// Two of one name are told apart by when they came.
function called(table, tables) {
  const isAlone = tables.filter((one) => one.name === table.name).length === 1;
  return isAlone ? table.name : `${table.name} (${new Date(1000 * table.created).toLocaleString()})`;
}

async function listTables(wanted, reading = {}) {
  const tables = await get("/api/tables");
  const chosen = tables.some((table) => table.id === wanted) ? wanted : "";
  byId("table").replaceChildren(
    new Option("choose a table", "", !chosen, !chosen),
    ...tables.map((table) => new Option(called(table, tables), table.id, false, table.id === chosen)),
  );
  byId("table").hidden = byId("lead-table").hidden = tables.length === 0;
  // A table with the test data is another one.
  byId("test").replaceChildren(new Option("a share of this table", ""), ...tables.map((table) => new Option(called(table, tables), table.id)));
  uploaded = new Set(tables.filter((table) => table.is_uploaded).map((table) => table.id));
  if (chosen !== state.table || !state.columns.length) await chooseTable(chosen, reading);
}

async function chooseTable(id, reading = {}) {
  state = fresh(id);
  looks += 1;
  alarm(null);
  clearRefusal();
  refused = null;
  setReading(reading);
  Object.assign(byId("reading"), { hidden: true, open: false });
  fillChoices();
  paintHeading();
  say("table-note", "");
  show(false);
  if (id) await look({ isNew: true });
}

function show(isReady) {
  for (const part of document.querySelectorAll("#asking .rest")) part.hidden = !isReady;
  byId("lead").hidden = isReady;
  byId("forget-table").hidden = !state.table;
  if (!isReady) clearRefusal();
  byId("forget-table").textContent = uploaded.has(state.table) ? "Delete this table and its studies" : "Forget this table and delete its studies; the file stays";
  byId("about").hidden = byId("try").hidden = byId("try-words").hidden = isReady;
  byId("steps").textContent = isReady ? "Your question" : "Start here";
}

function say(id, text, isWrong = false) {
  byId(id).textContent = text;
  byId(id).classList.toggle("wrong", isWrong);
}

function reading() {
  const numeric = (use) => [...state.use.keys()].filter((name) => state.use.get(name) === use);
  return {
    ...chosenReading(),
    categorical: numeric("categories"),
    bins: Object.fromEntries(numeric("bins").map((name) => [name, state.bins.get(name)])),
  };
}

// Read the columns, as corrected; what cannot be read that way is said, and must be settled.
async function look({ isNew = false } = {}) {
  looks += 1;
  const mine = looks;
  say("table-note", "Looking at the columns …");
  try {
    const found = await post(`/api/tables/${state.table}/schema`, reading());
    if (mine !== looks) return;
    state.columns = found.document.columns;
    state.comparedAs = new Map(state.columns.map((column, place) => [column.name, found.compared_as[place]]));
    state.isUnread = false;
    say("table-note", "");
    sayReading(found);
    byId("columns-words").textContent = `${state.columns.length} columns, ${found.document.rows} rows`;
    byId("remarks").replaceChildren(...found.document.warnings.map((text) => make("li", {}, text)));
    state.identities = found.identities;
    if (isNew) state.identity = found.likely_identity ?? "";
    if (isNew || !state.columns.some((column) => column.name === state.label)) {
      state.label = found.likely_label ?? "";
      state.protect = state.label ? [state.label] : [];
    }
    const known = new Set(state.columns.filter((column) => column.protectable).map((column) => column.name));
    state.protect = state.protect.filter((name) => known.has(name));
    show(true);
    paint();
  } catch (error) {
    if (mine !== looks) return;
    state.isUnread = true;
    say("table-note", error.message, true);
    byId("reading").hidden = false;
    if (isNew) { byId("reading").open = true; show(false); }
  }
}

async function tryIt() {
  say("table-note", "Loading the survey …");
  byId("try").disabled = true;
  try {
    await listTables((await post("/api/survey")).id);
    byId("go").focus();
  } catch (error) {
    say("table-note", error.message, true);
  } finally {
    byId("try").disabled = false;
  }
}

async function send(file) {
  if (!file) return;
  if (file.size > session.max_upload) {
    say("table-note", `A file must be at most ${Math.floor(session.max_upload / 2 ** 20)} MB. Name it in the command instead.`, true);
    return;
  }
  say("table-note", "Reading the file …");
  const reading = file === refused ? chosenReading() : {};
  if (file !== refused) setReading({});
  try {
    const table = await upload(file, reading);
    refused = null;
    await listTables(table.id, reading);
    byId("table").focus();
  } catch (error) {
    say("table-note", error.message, true);
    if (/\.(csv|tsv|txt|gz)$/i.test(file.name) && error.status === 422) {
      // Perhaps it only was read wrongly.
      state = fresh();
      byId("table").value = "";
      show(false);
      refused = file;
      sayReading(null);
    }
  } finally {
    byId("file").value = "";
  }
}

// --- Painting what is chosen ---

// Answers in a row; one with a comma in it is told from two.
const listed = (answers) => answers.map((name) => (name.includes(",") ? `“${name}”` : name)).join(", ");

const used = () => state.columns.filter((column) => state.use.get(column.name) !== "out");

// A column of numbers is predicted by another model, and cannot itself be randomised.
const isNumber = () => state.columns.find((column) => column.name === state.label)?.kind === "numeric";

function paint() {
  const labels = used().filter((column) => ["binary", "categorical"].includes(column.kind) && column.protectable);
  const numbers = used().filter((column) => column.kind === "numeric");
  if (!state.label && labels.length) state.label = labels[labels.length - 1].name;
  const named = (column) => new Option(column.name, column.name, false, column.name === state.label);
  const part = (words, columns) => (columns.length ? [make("optgroup", { label: words }, ...columns.map(named))] : []);
  byId("label").replaceChildren(...part("answers", labels), ...part("numbers", numbers));
  const label = state.columns.find((column) => column.name === state.label);
  byId("positive-part").hidden = !label || label.kind !== "categorical";
  byId("positive").hidden = !label?.categories;
  byId("positive-typed").hidden = Boolean(label?.categories);
  const answers = label?.categories ?? [];
  const positive = answers.includes(byId("positive").value) ? byId("positive").value : answers[answers.length - 1];
  byId("positive").replaceChildren(...answers.map((name) => new Option(name, name, false, name === positive)));
  paintProtect();
  paintGroups();
  paintSchema();
  paintChoices();
  paintMasking();
}

// --- Which columns give people away ---

function paintMasking() {
  const hasColumn = state.identities.length > 0;
  byId("masking-missing").hidden = session.can_mask;
  byId("masking-none").hidden = hasColumn || !session.can_mask;
  byId("masking-choices").hidden = !hasColumn || !session.can_mask;
  const isUsed = (name) => state.use.get(name) !== "out";
  if (!state.identities.includes(state.identity) || !isUsed(state.identity)) state.identity = "";
  const labels = used().filter((column) => ["binary", "categorical"].includes(column.kind) && column.name !== state.identity).map((column) => column.name);
  state.maskLabel = [state.maskLabel, state.label, labels.at(-1)].find((name) => labels.includes(name)) ?? "";
  const people = state.identities.filter((name) => isUsed(name) && name !== state.maskLabel);
  const option = (chosen) => (name) => new Option(name, name, false, name === chosen);
  byId("identity").replaceChildren(new Option("choose a column", ""), ...people.map(option(state.identity)));
  byId("mask-label").replaceChildren(...labels.map(option(state.maskLabel)));
}

function find() {
  clearRefusal();
  if (state.isUnread) { say("finding", "The table cannot be read as asked; correct that first.", true); return; }
  if (!state.identity) { say("finding", "Choose the column that names people.", true); byId("identity").focus(); return; }
  if (hasWrongField()) { say("finding", "Correct the field that is marked.", true); return; }
  const masked = {
    label: state.maskLabel, identity: state.identity, alpha: (number("alpha") ?? 20) / 100,
    model: byId("model").value, protect: [], declared: [], positive: null, groups: [], weight: null, correction: "none",
  };
  submit({ ...question(), ...masked }, {}, { button: "find", note: "finding", remedies: "finding-remedies", words: "Reading the table …", again: find });
}

// --- More choices ---

const MODELS = { logistic: "logistic regression", "hist-gradient-boosting": "boosted trees", "random-forest": "random forest", "extra-trees": "extremely randomised trees", mlp: "neural network", xgboost: "XGBoost", lightgbm: "LightGBM", own: "own model" };
// One choice for the linear models: what is predicted says which.
const LINEAR = "logistic";
const isLinear = () => byId("model").value === LINEAR;
const TRUST = {
  curator: "The curator is whoever holds the table: a model is trained on the true answers, and what leaves is protected. Protection without that trust is compared too.",
  nobody: "Answers are randomised before they are collected, so that nobody sees the true ones.",
};

function fillModels() {
  byId("model").replaceChildren(...session.models.filter((name) => name in MODELS).map((name) => new Option(MODELS[name], name)));
}

const USUAL = { model: LINEAR, trust: "curator", test: "", "max-loss-kind": "mistakes", "max-rate-kind": "advantage", missing: "auto", weight: "", "test-share": "25", regularisation: "", seed: "0", correction: false, epsilon: "0.1:10:30", "shadow-models": "128", alpha: "20", "allow-dependent": false, "max-loss": "", "max-rate": "", "study-name": "", "positive-typed": "" };

function fillChoices(chosen = {}) {
  for (const [id, usual] of Object.entries(USUAL)) {
    const value = chosen[id] ?? usual;
    if (byId(id).type === "checkbox") byId(id).checked = value; else byId(id).value = value;
  }
  tellFields();
}

function paintChoices() {
  const chosen = byId("weight").value || state.weight || "";
  const columns = used().filter((column) => column.kind === "numeric" && column.name !== state.label);
  byId("weight").replaceChildren(new Option("every row counts once", ""), ...columns.map((column) => new Option(column.name, column.name, false, column.name === chosen)));
  // Recalled once; from then on what stands in the box is what was chosen.
  state.weight = null;
  const linear = [...byId("model").options].find((option) => option.value === LINEAR);
  if (linear) linear.text = isNumber() ? "ridge regression" : MODELS[LINEAR];
  const isCorrected = byId("correction").checked && isLinear() && !isNumber();
  const said = [
    [isNumber(), "A number is predicted: only the cost of randomised response is shown."],
    [isCorrected, "With forward correction only the cost of randomised response is shown."],
    [byId("weight").value && byId("trust").value === "curator", "Mechanisms that train on the true answers take no weights and are not compared."],
    [!isLinear(), "The model is trained again at a few budgets, which takes minutes."],
  ];
  byId("model-words").textContent = said.filter(([is]) => is).map(([, words]) => words).join(" ");
  byId("trust-words").textContent = isNumber() || isCorrected ? "" : TRUST[byId("trust").value];
  for (const option of byId("test").options) option.hidden = option.disabled = option.value !== "" && option.value === state.table;
  byId("test-share-part").hidden = byId("test").value !== "";
  byId("max-loss-kind").disabled = isNumber();
  if (isNumber()) byId("max-loss-kind").value = "loss";
  paintCostKind();
  byId("correction-part").hidden = isNumber() || !isLinear() || !state.protect.includes(state.label);
  byId("regularisation-part").hidden = !isLinear();
  paintHeading();
}

// What the limit on the cost is in says which numbers it can be.
const COSTS = { mistakes: ["a number from 0 to 1000, such as 5", "1000"], loss: ["a loss of 0 or more, such as 0.05", "Infinity"] };
function paintCostKind() {
  const [expects, most] = COSTS[byId("max-loss-kind").value];
  Object.assign(byId("max-loss").dataset, { expects, most });
  tellFields();
}

// A screen reader reads what is chosen, not every menu of the sentence.
function paintHeading() {
  const chosen = (id) => byId(id).selectedOptions[0]?.text;
  const words = `How can ${byId("protect-words").textContent} of ${byId("people-words").textContent} in ${chosen("table") ?? "a table"} be protected, if ${chosen("trust")} may see the true answers and ${chosen("model")} predicts ${state.label}?`;
  if (state.columns.length) document.querySelector("#asking h1").setAttribute("aria-label", words);
  else document.querySelector("#asking h1").removeAttribute("aria-label");
}

function paintProtect() {
  byId("protect-words").textContent = state.protect.join(" and ") || "no column yet";
  const choices = used().filter((column) => column.protectable && !(isNumber() && column.name === state.label));
  byId("protect-choices").replaceChildren(...choices.map((column) => {
    const box = make("input", { type: "checkbox", checked: state.protect.includes(column.name), value: column.name });
    box.addEventListener("change", () => {
      state.protect = box.checked ? [...state.protect, column.name] : state.protect.filter((name) => name !== column.name);
      byId("protect-words").textContent = state.protect.join(" and ") || "no column yet";
      known.hidden = !box.checked;
      paintChoices();
    });
    const all = make("input", { type: "checkbox", checked: state.declared.includes(column.name) });
    all.addEventListener("change", () => {
      state.declared = all.checked ? [...state.declared, column.name] : state.declared.filter((name) => name !== column.name);
    });
    const answers = column.categories ? ` (${listed(column.categories)})` : "";
    const known = make("label", { className: "choice quiet known", hidden: !box.checked }, all, make("span", {}, `everybody may know that these answers are possible and no others${answers}`));
    return make("div", {}, make("label", { className: "choice" }, box, make("span", {}, column.name)), known);
  }));
}

function paintGroups() {
  const others = state.groups.length === 1 ? state.groups[0].name : `${state.groups.length} groups`;
  byId("people-words").textContent = state.groups.length ? `everyone and ${others}` : "everyone";
  paintHeading();
  byId("groups").replaceChildren(...state.groups.map((group, place) => {
    const drop = make("button", { type: "button", className: "link", textContent: "remove" });
    drop.setAttribute("aria-label", `remove ${group.name}`);
    drop.addEventListener("click", () => { state.groups.splice(place, 1); paintGroups(); byId("group-column").focus(); });
    return make("li", {}, make("span", { title: group.expression }, group.name), drop);
  }));
  const chosen = byId("group-column").value;
  byId("group-column").replaceChildren(...state.columns.filter((column) => !["constant", "identifier"].includes(column.kind))
    .map((column) => new Option(column.name, column.name, false, column.name === chosen)));
  paintValues();
}

function paintValues() {
  const column = state.columns.find((one) => one.name === byId("group-column").value);
  byId("group-values").replaceChildren(...(column?.categories ?? []).map((name) => make("option", { value: name })));
}

function paintSchema() {
  byId("schema").replaceChildren(...state.columns.map((column) => {
    const use = make("select", {}, new Option("as found", "found"));
    use.setAttribute("aria-label", `use ${column.name} as`);
    const isNumber = column.kind === "numeric" || ["categories", "bins"].includes(state.use.get(column.name));
    if (isNumber) use.append(new Option("categories", "categories"), new Option("bins", "bins"));
    if (column.name !== state.label) use.append(new Option("left out", "out"));
    use.value = state.use.get(column.name) ?? "found";
    const bins = make("input", { value: state.bins.get(column.name) ?? "10", hidden: use.value !== "bins", title: "10, or LOW:HIGH:10" });
    bins.setAttribute("aria-label", `bins of ${column.name}: 10, or LOW:HIGH:10`);
    const change = () => {
      state.use.set(column.name, use.value);
      state.bins.set(column.name, withPoints(bins.value));
      if (use.value === "out") leaveOut(column.name); else look();
    };
    use.addEventListener("change", change);
    bins.addEventListener("change", change);
    const answers = column.categories ? listed(column.categories) : `${column.n_distinct} different`;
    const holds = column.protectable ? KINDS[column.kind] : `${KINDS[column.kind]}${column.note === "needs --bins" ? "; to protect them, use bins" : ""}`;
    const note = column.note && column.note !== "needs --bins" ? ` (${column.note})` : "";
    return make("tr", {}, make("th", { scope: "row" }, column.name), make("td", {}, holds + note), make("td", {}, answers), make("td", {}, String(column.n_missing)), make("td", {}, use, bins));
  }));
}

// --- Groups ---

const KEYWORDS = ["and", "or", "not", "in", "true", "false"];
const quoted = (name) => (/^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.includes(name) ? name : `\`${name}\``);

// Names stand before the condition, where these signs would be read as part of it.
function addGroup(typed, expression) {
  const name = typed.replace(/[=<>!"'`()[\]]/g, " ").replace(/\s+/g, " ").trim().slice(0, 80).trim();
  const isNew = !state.groups.some((group) => group.name === name);
  if (!name || !expression || !isNew) return;
  state.groups.push({ name, expression });
  paintGroups();
}

// An answer as the condition must have it: by what the column holds, not by how the answer looks.
function literal(name, value) {
  const column = state.columns.find((one) => one.name === name);
  const kind = state.comparedAs.get(name);
  // What is shown for an answer that is withheld stands for it, whatever that is.
  const isWithheld = session.anonymous && column?.categories?.includes(value);
  if (kind === "number" && !isWithheld) return asTyped(value);
  if (kind === "truth" && !isWithheld) return /^(true|false)$/i.test(value) ? value.toLowerCase() : null;
  return value.includes('"') ? (value.includes("'") ? null : `'${value}'`) : `"${value}"`;
}

function addBuilt() {
  const [column, operator, value] = ["group-column", "group-operator", "group-value"].map((id) => byId(id).value.trim());
  if (!value) { byId("group-value").focus(); return; }
  const written = literal(column, value);
  const must = { number: "This column holds numbers: type one.", truth: "This column holds true and false: type one of them.", text: "An answer with both kinds of quotation marks cannot stand in a condition." }[state.comparedAs.get(column)];
  const wrong = column.includes("`") ? "A column with ` in its name cannot stand in a condition; rename it in the file." : written === null ? must : "";
  say("group-note", wrong, wrong !== "");
  if (wrong) { byId("group-value").focus(); return; }
  const words = { "==": "", "!=": "not ", "<": "under ", ">=": "from " }[operator];
  addGroup(`${column} ${words}${value}`, `${quoted(column)} ${operator} ${written}`);
  byId("group-value").value = "";
}

// --- Asking ---

// A refusal stands beside the button until something is changed.
function clearRefusal() {
  for (const note of ["going", "finding"]) say(note, "");
  for (const place of ["remedies", "finding-remedies"]) byId(place).replaceChildren();
}

function question() {
  return {
    ...reading(),
    label: state.label,
    protect: state.protect,
    declared: state.declared.filter((name) => state.protect.includes(name)),
    positive: byId("positive-part").hidden ? null : byId(byId("positive").hidden ? "positive-typed" : "positive").value.trim() || null,
    groups: state.groups,
    allow_dependent_groups: byId("allow-dependent").checked,
    drop: [...state.use.keys()].filter((name) => state.use.get(name) === "out"),
    missing: byId("missing").value,
    weight: byId("weight").value || null,
    trust: byId("trust").value,
    test: byId("test").value || null,
    test_share: (number("test-share") ?? 25) / 100,
    model: isLinear() && isNumber() ? "ridge" : byId("model").value,
    regularisation: isLinear() ? number("regularisation") : null,
    correction: byId("correction").checked && !byId("correction-part").hidden ? "forward" : "none",
    epsilon: epsilonGrid(),
    shadow_models: number("shadow-models") ?? 128,
    seed: number("seed") ?? 0,
  };
}

function go() {
  clearRefusal();
  if (state.isUnread) { say("going", "The table cannot be read as asked; correct that first.", true); return; }
  if (!state.protect.length) { say("going", "Choose at least one column to protect.", true); return; }
  if (hasWrongField()) { say("going", "Correct the field that is marked.", true); return; }
  const [cost, gain] = [number("max-loss"), number("max-rate")];
  const [costIs, gainIs] = [byId("max-loss-kind").value, byId("max-rate-kind").value];
  const limits = {
    [costIs === "loss" ? "max_loss_increase" : "max_accuracy_loss"]: cost === null || costIs === "loss" ? cost : cost / 10,
    [gainIs === "rate" ? "max_attack_rate" : "max_advantage"]: gain === null ? null : gain / 100,
  };
  submit(question(), limits, { button: "go", note: "going", remedies: "remedies", words: "Training the model once …", again: go });
}

// A refusal stands beside the button that was pressed.
async function submit(question, limits, { button, note, remedies, words, again }) {
  const asked = { table: state.table, name: byId("study-name").value.trim(), question, limits };
  byId(button).disabled = true;
  say(note, words);
  try {
    const study = await post("/api/studies", asked);
    say(note, "");
    byId("study-name").value = "";
    location.hash = `#/study/${study.id}`;
  } catch (error) {
    if (asked.table !== state.table) return;
    say(note, error.message, true);
    byId(remedies).replaceChildren(...error.remedies.map((found) => remedy(found, again)));
    byId(button).disabled = false;
    if (error.remedies.length) byId(remedies).firstChild.focus(); else lead(error.message);
  } finally {
    byId(button).disabled = false;
  }
}

// A button that settles missing answers and asks again.
function remedy({ missing, column, n_rows: rows }, again) {
  const words = { drop: `Leave these ${rows} rows out`, category: "Count missing as a category of its own" }[missing] ?? `Leave the column ${column} out`;
  const button = make("button", { type: "button", textContent: words });
  button.addEventListener("click", () => {
    if (missing) byId("missing").value = missing;
    else leaveOut(column);
    again();
  });
  return button;
}

function leaveOut(column) {
  state.use.set(column, "out");
  state.protect = state.protect.filter((name) => name !== column);
  paint();
}

// The field that a refusal names first is opened and has the focus.
const FIELDS = {
  "the column to predict": "label", "the answer that counts as yes": "positive", "the weight of a row": "weight", "missing answers": "missing",
  "the budgets": "epsilon", "the kind of model": "model", "the regularisation": "regularisation", "the seed": "seed", "the share set aside for testing": "test-share",
  "the number of attacked models": "shadow-models", "forward correction": "correction", "the largest acceptable cost": "max-loss", "the test data": "test", "who may see the true answers": "trust",
  "the attack limit": "max-rate", "the column that names people": "identity", "the share of what identifies people that must go": "alpha", "the delimiter": "delimiter", "the encoding": "encoding", "allow groups that give the answer away": "allow-dependent",
};

function lead(message) {
  const named = [...message.matchAll(/“([^”:]+)/g)].map((found) => FIELDS[found[1]]).find(Boolean);
  if (named) openTo(named);
}

const percent = (value, factor) => (value === null ? "" : Number((factor * value).toFixed(6)));

// Fill in what an earlier study asked, to ask something else.
async function recall(id) {
  const study = await get(`/api/studies/${id}`);
  await listTables(study.table);
  if (byId("table").value !== study.table) return;
  const { question, limits } = study;
  state = {
    ...fresh(study.table), columns: state.columns, comparedAs: state.comparedAs, label: question.label, weight: question.weight,
    protect: question.protect.length ? question.protect : [question.label], groups: [...question.groups], declared: [...question.declared],
    use: new Map([...question.drop.map((name) => [name, "out"]), ...question.categorical.map((name) => [name, "categories"]), ...Object.keys(question.bins).map((name) => [name, "bins"])]),
    bins: new Map(Object.entries(question.bins)), identities: state.identities, identity: question.identity ?? state.identity, maskLabel: question.identity ? question.label : "",
  };
  if (session.anonymous) state.groups = [];
  setReading(question);
  fillChoices({
    model: session.models.includes(question.model) && question.model in MODELS ? question.model : LINEAR,
    missing: question.missing, "test-share": Number((100 * question.test_share).toFixed(6)), regularisation: question.regularisation ?? "", alpha: percent(question.alpha, 100), seed: question.seed,
    correction: question.correction === "forward", epsilon: question.epsilon, "shadow-models": question.shadow_models, "allow-dependent": question.allow_dependent_groups,
    trust: question.trust, test: question.test ?? "",
    "max-loss-kind": limits.max_loss_increase === null ? "mistakes" : "loss", "max-loss": limits.max_loss_increase ?? percent(limits.max_accuracy_loss, 10),
    "max-rate-kind": limits.max_attack_rate === null ? "advantage" : "rate", "max-rate": percent(limits.max_attack_rate ?? limits.max_advantage, 100), "positive-typed": question.positive ?? "",
  });
  await look();
  if (question.positive && !byId("positive").hidden) byId("positive").value = question.positive;
  if (question.identity) byId("find").focus();
}

function wire() {
  isWired = true;
  byId("table").addEventListener("change", () => chooseTable(byId("table").value));
  byId("file").addEventListener("change", () => send(byId("file").files[0]));
  const drop = byId("drop");
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); send(event.dataTransfer.files[0]); });
  byId("label").addEventListener("change", () => {
    const wasLabel = state.protect.length === 1 && state.protect[0] === state.label;
    state.label = byId("label").value;
    if (wasLabel) state.protect = [state.label];
    if (isNumber()) state.protect = state.protect.filter((name) => name !== state.label);
    paint();
  });
  fillReading();
  fillModels();
  for (const id of ["model", "trust", "test", "correction", "weight"]) byId(id).addEventListener("change", paintChoices);
  byId("max-loss-kind").addEventListener("change", paintCostKind);
  byId("try").addEventListener("click", tryIt);
  for (const id of ["delimiter", "encoding"]) {
    byId(id).addEventListener("change", () => { if (refused) send(refused); else look({ isNew: !state.columns.length }); });
  }
  byId("group-column").addEventListener("change", paintValues);
  byId("group-add").addEventListener("click", addBuilt);
  byId("group-value").addEventListener("keydown", (event) => { if (event.key === "Enter") addBuilt(); });
  byId("group-write").addEventListener("click", () => {
    const expression = byId("group-expression").value.trim();
    addGroup(byId("group-name").value.trim() || expression.slice(0, 80), expression);
  });
  byId("go").addEventListener("click", go);
  byId("find").addEventListener("click", find);
  for (const [id, part] of [["identity", "identity"], ["mask-label", "maskLabel"]]) {
    byId(id).addEventListener("change", () => { state[part] = byId(id).value; paintMasking(); });
  }
  wireFields();
  for (const kind of ["input", "change"]) {
    byId("asking").addEventListener(kind, () => { if (document.querySelector("#going.wrong, #finding.wrong")) clearRefusal(); });
  }
  byId("group-value").addEventListener("input", () => say("group-note", ""));
  byId("forget-table").addEventListener("click", async () => {
    if (!confirm(uploaded.has(state.table) ? "Delete this table and every study of it?" : "Forget this table and delete every study of it? The file itself stays.")) return;
    try {
      await remove(`/api/tables/${state.table}`);
      alarm(null);
      state = fresh();
      await listTables("");
    } catch (error) {
      alarm(error.message);
      if (error.status === undefined) throw error;
    }
  });
  // A menu closes by Escape, and when something else is clicked.
  for (const menu of document.querySelectorAll("details.menu")) {
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
    document.addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  }
}
