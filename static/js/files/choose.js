// Files and folders are chosen, or dropped anywhere on the page.

import { form, input, one } from "./page.js";
import { start } from "./uploads.js";

const walk = async (entry, before, found) => {
  if (entry.isFile) {
    found.push([before + entry.name, await new Promise((done, fail) => entry.file(done, fail))]);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!part.length) return;
    for (const each of part) await walk(each, `${before}${entry.name}/`, found);
  }
};
const dropped = async (transfer) => {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => [file.name, file]);
  const found = [];
  for (const entry of entries) await walk(entry, "", found);
  return found;
};

const isFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
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
