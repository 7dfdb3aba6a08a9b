// SPDX-License-Identifier: Apache-2.0
// Asks the server; a refusal becomes an error with the server's one line.

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(method, path, { body, json } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      body: json === undefined ? body : JSON.stringify(json),
      headers: json === undefined ? {} : { "content-type": "application/json" },
    });
  } catch {
    throw new Refused("The server does not answer. Start it again; what was finished is kept.", 0);
  }
  if (answer.status === 204) return null;
  if (answer.ok && answer.headers.get("content-type")?.startsWith("image/svg")) return answer.text();
  const told = await answer.json();
  if (!answer.ok) throw new Refused(told.error, answer.status);
  return told;
}

export const get = (path) => ask("GET", path);
export const post = (path, json = {}) => ask("POST", path, { json });
export const patch = (path, json) => ask("PATCH", path, { json });
export const remove = (path) => ask("DELETE", path);
export function upload(file, reading = {}) {
  const given = Object.entries({ name: file.name, ...reading }).filter(([, value]) => value);
  return ask("POST", `/api/tables?${new URLSearchParams(given)}`, { body: file });
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

export function alarm(message) {
  byId("alarm").hidden = message === null;
  byId("alarm").textContent = message ?? "";
}
