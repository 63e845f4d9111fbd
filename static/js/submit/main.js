// Starts the submit page.

import { begin, keep as keepNow } from "./drafts.js";
import { format, replace, text } from "./editor.js";
import "./plan.js";
import "./form.js";
import "./roles.js";
import "./changed.js";
import "./sizes.js";
import "./lists.js";
import "./sweep.js";
import "./upload.js";
import { form, one, say } from "./page.js";
import { imagesKnown } from "./schema.js";

one("[data-layout]").addEventListener("click", (event) => {
  if (!text().trimStart().startsWith("{") && text().trim()) return;  // YAML: the server turns it into JSON
  event.preventDefault();
  format();
});

one("#file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (!file) { one("#refuses").textContent = ""; return; }
  if (file.size > 100 * 1024) {
    one("#refuses").textContent = "The file is larger than 100 kB, so it is no job config.";
    return;
  }
  const read = await file.text();
  event.target.value = "";
  replace(read);
});
one("[data-export]").addEventListener("click", (event) => {
  event.preventDefault();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text()], { type: "application/json" }));
  link.download = `${/"jobName"\s*:\s*"([\w.-]+)"/.exec(text())?.[1] ?? "job"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});
// Where one starts from comes into the editor, so one undo brings back what was there.
form.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-start]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const answer = await fetch(link.href, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) { location.assign(link.href); return; }
  const found = (await answer.json()).text;
  await keepNow();
  replace(found);
  begin(link.href);
  say(`${link.textContent.trim()} is in the editor`);
});
one("#image").addEventListener("focus", async () => {
  one("#images").replaceChildren(...(await imagesKnown()).map(({ name, nodes }) => new Option(`on ${nodes}`, name)));
}, { once: true });
