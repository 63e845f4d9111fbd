// What would happen if this text were submitted now: asked 400 ms after typing stops; the old answer stays, dimmed.

import { goTo, onChange, showProblems, text, view } from "./editor.js";
import { all, form, one, post, settled } from "./page.js";
import { apply } from "./problems.js";

let asked = null;

// A narrow page has a second button, in the bar at its foot.
const buttons = all("#submit, [data-submit-too]", form);
const refuse = (why) => {
  for (const each of all("#refuses, [data-refuses-too]", form)) each.textContent = why;
  for (const each of buttons) each.toggleAttribute("disabled", Boolean(why));
};

// What is known of a field stands in the panel, and below the field.
const note = (panel) => {
  for (const place of all("[data-noted]")) {
    const found = one(`[data-note="${place.dataset.noted}"]`, panel);
    place.replaceChildren(...(found ? found.cloneNode(true).childNodes : []));
  }
};
const read = () => {
  const panel = one("[data-plan]");
  const found = [...panel.querySelectorAll("[data-line]")].map(({ dataset }) => ({
    line: Number(dataset.line),
    message: dataset.message,
    path: dataset.path,
    mend: dataset.mend ? JSON.parse(dataset.mend) : null,
  }));
  showProblems(found);
  const lines = new Set(found.map((each) => each.line)).size;
  const count = one("[data-problems]");
  count.hidden = !found.length;
  one("span", count).textContent = `${found.length} problem${found.length === 1 ? "" : "s"}`;
  const refuses = panel.dataset.refuses;
  refuse(refuses);
  for (const each of buttons) each.textContent = panel.dataset.verb || "Submit job";
  note(panel);
  view.contentDOM.setAttribute("aria-invalid", String(lines > 0));
  document.dispatchEvent(new CustomEvent("ls:checked", { detail: found }));
};

export const check = async () => {
  asked?.abort();
  asked = new AbortController();
  try {
    const answer = await post("/submit/check", { config: text() }, asked.signal);
    if (answer.status === 429) {
      setTimeout(check, 1000 * Number(answer.headers.get("Retry-After")));
      one("#plan").textContent = await answer.text();
      return;
    }
    if (!answer.ok || answer.redirected) throw new Error(answer.status);
    one("#plan").innerHTML = await answer.text();
    read();
  } catch (error) {
    if (error.name === "AbortError") return;
  }
  one("#plan").classList.remove("dim");
};
const soon = settled(400, check);

onChange(() => {
  refuse("");
  one("#plan").classList.add("dim");
  soon();
});
form.addEventListener("click", (event) => {
  const link = event.target.closest("[data-goto]");
  const mends = event.target.closest("[data-mend]:is(button)");
  if (mends) apply(view, JSON.parse(mends.dataset.mend));
  if (!link) return;
  event.preventDefault();
  goTo(Number(link.dataset.goto));
});
// What is drawn with a page that was sent is about its text; so is what a page that has just opened shows.
read();
if (text().trim() && !one("[data-plan] .ls-state")) check();
