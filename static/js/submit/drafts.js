// Keeps what is typed as a draft on the server, 2 s after typing stops, and saves templates.

import { onChange, text } from "./editor.js";
import { area, form, one, post, settled } from "./page.js";

const PAUSE = 2000, AGAIN = 5000;
const note = one("#kept"), id = one("#draft-id");
let kept = "unsent" in form.dataset ? null : area.value;  // what the server has, or nobody has typed
let under = false;
let wasSent = false;
const isOpen = () => !wasSent && text() !== kept;

const say = (words, isWarning = false) => {
  note.textContent = words;
  note.classList.toggle("ls-warn", isWarning);
};
export const keep = async () => {
  if (under || !isOpen()) return;
  under = true;
  const sent = text();
  try {
    const answer = await post("/submit/drafts", { config: sent, draft: id.value });
    const told = answer.redirected ? {} : await answer.json();
    if (!answer.ok || answer.redirected) throw new Error(told.message ?? "the session has ended");
    kept = sent;
    id.value = told.id || "";
    say(told.id ? "Draft saved" : "");
  } catch (error) {
    say(`Draft not saved, trying again: ${error.message}`, true);
    setTimeout(keep, AGAIN);
  }
  under = false;
  if (isOpen()) soon();
};
const soon = settled(PAUSE, keep);

onChange(() => { wasSent = false; if (isOpen()) soon(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) keep(); });
form.addEventListener("submit", () => { wasSent = true; });  // the portal forgets the draft once it has taken the job
addEventListener("beforeunload", (event) => { if (isOpen()) { keep(); event.preventDefault(); } });
if ("unsent" in form.dataset) soon();

// A text that another draft or template takes the place of stays as the draft it is; the new one is a draft of its own.
export const begin = (from) => {
  id.value = /[?&]draft=(\d+)/.exec(from)?.[1] ?? "";
  kept = text();
};

one("[data-save]").addEventListener("click", async (event) => {
  event.preventDefault();
  const fields = { config: text(), template_name: one("#template-name").value, template_vc: one("#template-vc").value };
  const answer = await post("/submit/templates", fields).catch(() => null);
  const told = await answer?.json().catch(() => null);
  one("#saved").textContent = told?.message ?? "It was not saved: the portal does not answer.";
});
