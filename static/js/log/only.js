// "Only around matches": hides the lines that are far from all of them.

import { keepTop, refresh } from "./list.js";
import { list, part, view } from "./page.js";
import { placeOf } from "./rows.js";
import { hits, onHits } from "./search.js";
import { gapIn, openGap, showOnly } from "./shown.js";

const label = part("only"), check = label.querySelector("input");

// A hit knows the place that its line had when it was found. Lines that came since may have moved it.
const placesOf = () => hits.map(([number, line, rank]) => placeOf(`${number}.${line}`) ?? rank);

function apply() {
  label.hidden = !view.q;
  keepTop(() => showOnly(view.q && check.checked ? placesOf() : null));
  refresh();
}

onHits(apply);
check.addEventListener("change", () => {
  const shown = new URL(location.href);
  if (check.checked) shown.searchParams.set("only", "1");
  else shown.searchParams.delete("only");
  history.replaceState(history.state, "", shown);
  apply();
});
list.addEventListener("click", (event) => {
  const button = event.target.closest("li.gap button");
  const gap = button && gapIn(Number(button.dataset.index));
  if (!gap) return;
  keepTop(() => openGap(gap));
  refresh();
});
