// SPDX-License-Identifier: Apache-2.0
// Asks the server; a refusal becomes an error with the server's one line.

export class Refused extends Error {
  constructor(message, status, remedies = []) {
    super(message);
    Object.assign(this, { status, remedies });
  }
}

const KEY = "epsilens-key";

export function keepKey(key) {
  try {
    localStorage.setItem(KEY, key);
  } catch {
    throw new Refused("This browser keeps nothing for this address. Allow it cookies and site data, and open the link again.", 0);
  }
}

// The key was given for the link. It is read each time: another tab may have got a new one.
function knownKey() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

// Calls back when another tab has opened a link of this address.
export function onNewKey(call) {
  addEventListener("storage", (event) => { if (event.key === KEY && event.newValue) call(); });
}

async function send(method, path, { body, json } = {}) {
  const headers = { "x-epsilens-key": knownKey() };
  if (json !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    throw new Refused("The server does not answer. Start “epsilens serve” again and open the link that it shows; what was finished is kept.", 0);
  }
  if (!answer.ok) {
    const { error, remedies } = await answer.json();
    throw new Refused(error, answer.status, remedies);
  }
  return answer;
}

async function ask(method, path, content) {
  const answer = await send(method, path, content);
  if (answer.status === 204) return null;
  return answer.headers.get("content-type")?.startsWith("image/svg") ? answer.text() : answer.json();
}

export const get = (path) => ask("GET", path);
export const post = (path, json = {}) => ask("POST", path, { json });
export const patch = (path, json) => ask("PATCH", path, { json });
export const remove = (path) => ask("DELETE", path);
export function upload(file, reading = {}) {
  const given = Object.entries({ name: file.name, ...reading }).filter(([, value]) => value);
  return ask("POST", `/api/tables?${new URLSearchParams(given)}`, { body: file });
}

// A link cannot show the key: what it leads to is fetched, and then saved under its name.
export async function save(event) {
  event.preventDefault();
  try {
    const answer = await send("GET", event.currentTarget.href);
    const name = answer.headers.get("content-disposition").split('"')[1];
    const address = URL.createObjectURL(await answer.blob());
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    alarm(error.message);
    if (error.status === undefined) throw error;
  }
}

export const byId = (id) => document.getElementById(id);

// An element with its parts; text is text, never markup.
export function make(tag, properties = {}, ...parts) {
  const { attributes = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...parts);
  return made;
}

// A chart as real text in the page, without a ground of its own.
export function place(svg, where) {
  const drawn = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  drawn.querySelector("rect")?.remove();
  where.replaceChildren(document.importNode(drawn, true));
}

export function alarm(message) {
  byId("alarm").hidden = message === null;
  byId("alarm").textContent = message ?? "";
}
