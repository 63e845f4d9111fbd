// Deletes what is selected. Only its button sends the selection; the search field beside it does not.

import { say } from "./page.js";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-delete]");
  if (!button) return;
  event.preventDefault();
  const boxes = [...document.querySelectorAll("#listing tbody input[name=name]:checked")];
  const names = boxes.map((box) => ["name", box.value]);
  if (!names.length) { say("Nothing is selected"); return; }
  const link = document.createElement("a");
  link.href = `${button.form.action}?${new URLSearchParams([["do", "delete"], ...names])}`;
  link.dataset.dialog = "";
  button.after(link);
  link.click();
  link.remove();
});
