// Files and folders are chosen, or dropped anywhere on the page.

import { dropped, isFiles } from "./dropped.js";
import { form, input, one } from "./page.js";
import { start } from "./uploads.js";

const mark = (over) => form.classList.toggle("ls-over", over);

one("[data-plain]", form).hidden = true;
input.required = false;
input.addEventListener("change", () => {
  const chosen = [...input.files].map((file) => [file.name, file]);
  input.value = "";
  start(chosen);
});
one("[data-choose]").addEventListener("click", (event) => {
  event.preventDefault();
  input.click();
});
document.addEventListener("dragover", (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  mark(true);
});
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
document.addEventListener("drop", async (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  mark(false);
  start(await dropped(event.dataTransfer).catch(() => []));
});
