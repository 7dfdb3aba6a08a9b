// SPDX-License-Identifier: Apache-2.0
// How a text file was read, and how it is to be read instead.
import { byId } from "./api.js";

const DELIMITERS = [[",", "commas"], [";", "semicolons"], ["\t", "tabs"], ["|", "bars"]];
const ENCODINGS = [
  ["utf-8", "UTF-8"], ["cp1252", "Western European (Windows-1252)"], ["latin-1", "Western European (Latin-1)"], ["cp1250", "Central European (Windows-1250)"],
  ["cp1251", "Cyrillic (Windows-1251)"], ["cp1253", "Greek (Windows-1253)"], ["cp1254", "Turkish (Windows-1254)"], ["cp1257", "Baltic (Windows-1257)"],
  ["mac_roman", "old Macintosh"], ["cp850", "DOS (850)"], ["utf-16", "UTF-16 (with a byte order mark)"], ["shift_jis", "Japanese (Shift JIS)"], ["gb18030", "Chinese (GB 18030)"], ["euc_kr", "Korean (EUC-KR)"],
];
const CHOICES = { delimiter: DELIMITERS, encoding: ENCODINGS };
const name = (kind, value) => CHOICES[kind].find(([known]) => known === value)?.[1] ?? String(value);

export function fillReading() {
  for (const [kind, choices] of Object.entries(CHOICES)) {
    byId(kind).replaceChildren(new Option("as found", ""), ...choices.map(([value, words]) => new Option(words, value)));
  }
}

export function setReading(reading) {
  for (const kind of Object.keys(CHOICES)) {
    const value = reading[kind] ?? "";
    if (value && ![...byId(kind).options].some((option) => option.value === value)) byId(kind).append(new Option(value, value));
    byId(kind).value = value;
  }
}

export const chosenReading = () => Object.fromEntries(Object.keys(CHOICES).map((kind) => [kind, byId(kind).value || null]));

// What was found, in words; null where the file could not be read at all.
export function sayReading(found) {
  const part = byId("reading");
  part.hidden = found !== null && found.delimiter === null;
  if (found === null) {
    byId("reading-words").textContent = "Perhaps it was read wrongly:";
    part.open = true;
    return;
  }
  if (part.hidden) return;
  const encoding = found.encoding.replace(/^utf-8-sig$/, "utf-8").replace(/^utf-16-[bl]e$/, "utf-16");
  byId("reading-words").textContent = `Read as text with ${name("delimiter", found.delimiter)} between the columns, letters in ${name("encoding", encoding)};`;
  for (const [kind, value] of [["delimiter", found.delimiter], ["encoding", encoding]]) {
    if (!byId(kind).value) byId(kind).options[0].textContent = `as found: ${name(kind, value)}`;
  }
}
