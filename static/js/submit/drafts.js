// Keeps what is typed as the draft of this tab on the server, 2 s after typing stops, and saves templates. The address
// names the draft, so a tab that is loaded again has its own.

import { onChange, replace, text } from "./editor.js";
import { area, form, one, post, readerOf, say as announce, settled } from "./page.js";

const PAUSE = 2000, AGAIN = 5000;
const note = one("#kept"), id = one("#draft-id"), version = one("#draft-version"), own = one("[data-own]");
let kept = "unsent" in form.dataset ? null : area.value;  // what the server has, or nobody has typed
let under = null;
let wasSent = false;
let saved = "Draft saved";
const isOpen = () => !wasSent && text() !== kept;

const say = (words, isWarning = false) => {
  note.textContent = words;
  note.classList.toggle("ls-warn", isWarning);
};
const isOf = (draft, address) => {
  [id.value, version.value, own.hidden] = [draft.id || "", draft.version ?? "", !draft.id];
  own.formAction = `/submit/drafts/${draft.id}/delete`;
  history.replaceState(null, "", address);
};
const save = async () => {
  const sent = text();
  try {
    const answer = await post("/submit/drafts", { config: sent, draft: id.value, version: version.value });
    const told = await answer.json().catch(() => ({}));
    if (answer.redirected) throw new Error("the session has ended. Sign in again in another tab");
    if (told.id === undefined) throw new Error(told.message ?? `the portal answered ${answer.status}`);
    kept = sent;
    if (told.id && id.value && told.id !== Number(id.value))
      saved = "Draft saved as a new one: the other was changed, submitted or discarded elsewhere";
    isOf(told, told.id ? `/submit?draft=${told.id}` : "/submit");
    say(told.id ? saved : "");
  } catch (error) {
    say(`Draft not saved, trying again: ${error.message}`, true);
    setTimeout(keep, AGAIN);
  }
};
export const keep = async () => {
  while (under) await under;
  if (!isOpen()) return;
  under = save();
  await under;
  under = null;
  if (isOpen()) soon();
};
const soon = settled(PAUSE, keep);

onChange(() => { wasSent = false; if (isOpen()) soon(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) keep(); });
form.addEventListener("submit", (event) => {  // the portal forgets the draft once it has taken the job
  wasSent = true;
  remember();
  if (!under) return;
  event.preventDefault();
  under.then(() => form.requestSubmit(event.submitter));
});
addEventListener("beforeunload", (event) => { if (isOpen()) { keep(); event.preventDefault(); } });
if ("unsent" in form.dataset) soon();

// The sign-in, to which Submit leads where the session has ended, keeps no field, nor does the browser's own page where
// the portal does not answer: this tab remembers what was submitted until another page comes (longshore.js), and gives
// it back to the same reader.
const remember = () => {
  const mine = JSON.stringify([readerOf(document), text()]);
  try { sessionStorage.setItem("submitted", mine); } catch { /* a browser that keeps nothing */ }
};
const remembered = () => {
  try {
    const [reader, config] = JSON.parse(sessionStorage.getItem("submitted") ?? "[]");
    sessionStorage.removeItem("submitted");
    const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
    const isSignedIn = document.referrer.split("?")[0].endsWith("/login");
    return reader === readerOf(document) && (isBack || isSignedIn) ? config : undefined;
  } catch { return undefined; }
};
const unsent = remembered();
if (unsent !== undefined && unsent !== text()) {
  replace(unsent);
  announce("What you submitted did not reach the portal: it is in the editor");
}

// A text that another job or template takes the place of stays as the draft it is; the new one is a draft of its own.
export const begin = (address) => {
  isOf({}, address);
  say("");
  kept = text();
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-discard]");
  if (!button) return;
  event.preventDefault();
  const answer = await post(button.formAction, {}).catch(() => null);
  if (!answer?.ok || answer.redirected) { location.reload(); return; }
  const list = button.closest("#drafts");
  button.closest("li").remove();
  if (!one("li", list)) list.remove();
});
one("[data-save]").addEventListener("click", async (event) => {
  event.preventDefault();
  const fields = { config: text(), template_name: one("#template-name").value, template_vc: one("#template-vc").value };
  const answer = await post("/submit/templates", fields).catch(() => null);
  const told = await answer?.json().catch(() => null);
  one("#saved").textContent = told?.message ?? "It was not saved: the portal does not answer.";
});
