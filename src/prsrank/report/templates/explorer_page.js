"use strict";
// What all of the page needs: colours, elements, numbers as text, packed data.
const root = document.documentElement;
const $ = (id) => document.getElementById(id);

// Light and dark, as in the report.
const theme = $("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
const tellTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  tellTheme();
});
prefersDark.addEventListener("change", tellTheme);
tellTheme();
theme.hidden = false;

// Elements: every text of the data goes through textContent.
const element = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};
const shape = (name, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const count = (value) => value.toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
const someQueries = (value) => (value === 1 ? "1 query" : `${count(value)} queries`);
const signed = (value, digits = 3) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const share = (value) => (value === 0 ? "0" : value < 0.001 ? "<0.001" : value.toFixed(3));
const tone = (value) => (value > 0 ? "up" : value < 0 ? "down" : "");

// What explorer.packed packed.
const unpack = async (id) => {
  const text = atob($(id).textContent);
  const zipped = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) zipped[i] = text.charCodeAt(i);
  const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const { meta, arrays } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const found = { meta };
  let at = 4 + size;
  for (const [name, kind, length] of arrays) {
    const whole = new Uint8Array(4 * length);
    for (let plane = 0; plane < 4; plane++) {
      for (let i = plane; i < whole.length; i += 4) whole[i] = bytes[at++];
    }
    found[name] = kind === "f" ? new Float32Array(whole.buffer) : new Uint32Array(whole.buffer);
  }
  return found;
};

// Tables in a region that scrolls by itself.
const row = (name, texts) => {
  const made = element("tr");
  for (const [text, className] of texts) {
    const cell = element(name, text, className);
    if (name === "th") cell.scope = "col";
    made.append(cell);
  }
  return made;
};
const tableIn = (label, className) => {
  const region = element("div", undefined, "scroll");
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", label);
  region.tabIndex = 0;
  const table = element("table", undefined, className);
  region.append(table);
  return [region, table];
};
