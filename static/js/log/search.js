// Searches the whole log on the server, and steps through the matching lines.

import { follow } from "./follow.js";
import { toLine } from "./loads.js";
import { folded, found, remark } from "./marks.js";
import { ask, field, list, part, root, say, view } from "./page.js";

const MOST = 100000;
const lastFound = () => found.lines.at(-1) ?? 0;

export function matchNew(line) {
  if (!found.text || found.counting || line.partial || line.number <= lastFound()) return;
  if (!folded(line.text, found.text).includes(found.text)) return;
  found.lines.push(line.number);
  showFound();
}

function showFound() {
  const has = found.lines.length > 0, count = found.lines.length.toLocaleString("en");
  const at = found.at >= 0 ? `${(found.at + 1).toLocaleString("en")} of ${count}` : count;
  part("found").textContent = found.text
    ? `${at} in ${view.total.toLocaleString("en")} lines${found.counting ? " so far" : ""}` : "";
  part("prev").hidden = part("next").hidden = !has;
}

let asking = 0;
async function search(text) {
  const mine = (asking += 1);
  Object.assign(found, { text, lines: [], at: -1, counting: Boolean(text) });
  remark();
  showFound();
  let cursor = 0;
  try {
    while (text && cursor !== null && found.lines.length < MOST) {
      const got = await ask(root.dataset.search, { q: text, cursor });
      if (mine !== asking) return;
      const last = lastFound();
      for (const line of got.lines) if (line > last) found.lines.push(line);
      cursor = got.cursor;
      showFound();
      if (found.at < 0 && found.lines.length) step(1);
    }
  } catch (error) { say(error.message); }
  if (mine !== asking) return;
  found.counting = false;
  showFound();
}

export function step(by) {
  if (!found.lines.length) return;
  found.at = (found.at + by + found.lines.length) % found.lines.length;
  follow(false);
  const wanted = found.lines[found.at];
  toLine(wanted).then(() => {
    for (const old of list.querySelectorAll("mark.cur")) old.classList.remove("cur");
    const item = document.getElementById(`L${wanted}`);
    const hit = item && item.querySelector("mark");
    if (hit) hit.classList.add("cur");
  });
  showFound();
}

part("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = field.value;
  const asked = folded(text, text);
  if (asked && asked === found.text) step(1);
  else search(asked);
});
field.addEventListener("input", () => { if (!field.value) search(""); });
part("prev").addEventListener("click", () => step(-1));
part("next").addEventListener("click", () => step(1));

export function searchField() {
  if (field.value) search(folded(field.value, field.value));
}
