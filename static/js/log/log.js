// Starts the log page: its buttons, links to lines, and where it begins.

import { begin, follow } from "./follow.js";
import "./keys.js";
import { learn, skipLines, tint } from "./lines.js";
import { loadNewer, loadOlder, toLine } from "./loads.js";
import { list, part, root, view } from "./page.js";
import { searchField } from "./search.js";
import { open } from "./stream.js";

function toHash() {
  const wanted = /^#L(\d{1,10})$/.exec(location.hash);
  if (!wanted) return false;
  follow(false);
  toLine(Number(wanted[1]), true);
  return true;
}
addEventListener("hashchange", toHash);
list.addEventListener("click", (event) => {
  const link = event.target.closest("li > a");
  if (link) { event.preventDefault(); follow(false); toLine(Number(link.textContent), true); }
});

function onClick(node, act) {
  node.addEventListener("click", (event) => {
    event.preventDefault();
    act();
  });
}
onClick(part("follow"), () => follow(!view.following));
onClick(part("older").firstElementChild, loadOlder);
onClick(part("newer").firstElementChild, loadNewer);
onClick(part("top"), () => { follow(false); toLine(1); });
onClick(part("end"), () => follow(true));

for (const span of list.querySelectorAll("[data-colour], [data-background]"))
  tint(span, span.dataset.colour, span.dataset.background);
skipLines();
learn();
part("state").textContent = view.ended ? "All there is" : "Connecting";
begin(toHash() || root.dataset.moved === "1");
searchField();
open();
