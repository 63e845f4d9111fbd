// When the role that is shown would start with other numbers of GPUs: asked once the text as it is has been checked.

import { text } from "./editor.js";
import { edit, onDraw, state } from "./form.js";
import { one, post, say } from "./page.js";

const box = one("[data-sizes]");
let asked = null, shown = "";

const gpus = () => Number(state.value.taskRoles?.[state.role]?.gpuNumber ?? 0);
const show = async () => {
  const question = `${state.role} ${text()}`;
  asked?.abort();
  if (question === shown) { box.classList.remove("dim"); return; }
  asked = new AbortController();
  if (!(gpus() > 0)) { box.hidden = true; shown = ""; return; }
  try {
    const answer = await post("/submit/sizes", { config: text(), role: state.role }, asked.signal);
    if (!answer.ok || answer.redirected) return;
    box.innerHTML = await answer.text();
    box.hidden = !box.firstElementChild;
    box.classList.remove("dim");
    shown = question;
  } catch { /* a newer question has taken its place, or the portal does not answer: what was known stays, dimmed */ }
};

onDraw(() => {
  box.classList.add("dim");
  if (!(gpus() > 0)) box.hidden = true;
});
document.addEventListener("ls:checked", show);
queueMicrotask(show);  // a page that comes with its answer is not checked again; the form is read by now
one("[data-roles]").addEventListener("click", show);
box.addEventListener("click", ({ target }) => {
  const chosen = target.closest("[data-gpus]");
  if (!chosen) return;
  edit(["taskRoles", state.role, "gpuNumber"], Number(chosen.dataset.gpus));
  one("#role-gpuNumber").value = chosen.dataset.gpus;
  one("#role-gpuNumber").focus();
  say(`GPUs each: ${chosen.dataset.gpus}`);
});
