// Code by drag: files go into a folder of the user's through the WebHDFS gateway, and codeDir names it.

import { dropped, isFiles } from "../files/dropped.js";
import { address, words } from "../files/page.js";
import { edit, state } from "./form.js";
import { ignored } from "./ignored.js";
import { button, element, form, one } from "./page.js";

const AT_ONCE = 3;
const LEFT_OUT = /(^|\/)(\.git|__pycache__|node_modules|\.venv|\.ipynb_checkpoints|\.DS_Store)(\/|$)|\.pyc$/;
const box = one("[data-drop]"), list = one("#code-uploads");
let open = 0;

const reason = (request) => {
  if (request.status === 401) return "The session has ended. Sign in again in another tab, then try again.";
  try { return JSON.parse(request.responseText).RemoteException.message; }
  catch { return request.status ? `The portal answered ${request.status}.` : "The connection broke off."; }
};
const put = (path, file, moved) => new Promise((done) => {
  const request = new XMLHttpRequest();
  request.upload.onprogress = (event) => moved(event.loaded);
  request.onload = () => done(request.status === 201 ? "" : reason(request));
  request.onerror = () => done(reason(request));
  request.open("PUT", `${address(path)}?op=CREATE&data=true&overwrite=true`);
  request.setRequestHeader("X-XSRF-HEADER", "1");
  request.send(file);
});

// Folders keep their tree. One folder is the codeDir itself; several things are in a folder named as the job.
const send = async (chosen) => {
  const usual = chosen.filter(([name]) => !LEFT_OUT.test(name));
  const line = element("li", "ls-small"), told = element("span", "ls-break");
  let files = usual;
  try {
    const left = await ignored(usual);
    files = usual.filter(([name]) => !left.has(name));
  } catch (error) {
    told.textContent = `Nothing was uploaded. ${error.message}`;
    told.classList.add("ls-no");
    line.append(told);
    list.hidden = false;
    list.append(line);
    return;
  }
  const without = [
    chosen.length > usual.length && `${chosen.length - usual.length} of .git, __pycache__ and the like`,
    usual.length > files.length && `${usual.length - files.length} by .longshoreignore`,
  ].filter(Boolean).join(", ");
  if (!files.length) return;
  const job = /^[\w.-]+$/.test(state.value.jobName ?? "") ? state.value.jobName : "code";
  const folder = `${box.dataset.folder}/${job}`;
  const tops = new Set(files.map(([name]) => (name.includes("/") ? name.split("/")[0] : "")));
  const only = tops.size === 1 ? [...tops][0] : "";
  const total = files.reduce((sum, [, file]) => sum + file.size, 0);
  line.append(element("b", "fw-medium", only ? `${only}/ ` : `${files.length} files `), told);
  list.hidden = false;
  list.append(line);
  const sent = new Map();
  const show = () => {
    const done = [...sent.values()].reduce((sum, bytes) => sum + bytes, 0);
    told.textContent = `${words(Math.min(done, total))} of ${words(total)}`;
  };
  open += 1;
  const queue = [...files];
  const faults = [];
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [name, file] = next;
      const fault = await put(`${folder}/${name}`, file, (bytes) => { sent.set(name, bytes); show(); });
      if (fault) faults.push([name, file, fault]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  open -= 1;
  const left = without ? ` · left out: ${without}` : "";
  told.textContent = faults.length
    ? `${faults.length} of ${files.length} files not uploaded: ${faults[0][2]} `
    : `uploaded, ${files.length} files, ${words(total)}, to ${folder}${left}`;
  told.classList.toggle("ls-no", faults.length > 0);
  if (faults.length) {
    const again = button("Try again");
    again.addEventListener("click", () => { line.remove(); send(faults.map(([name, file]) => [name, file])); });
    line.append(again);
  } else edit(["codeDir"], `$PAI_DEFAULT_FS_URI${folder}${only ? `/${only}` : ""}`);
};

for (const input of [one("#code-files"), one("#code-folder")]) input.addEventListener("change", () => {
  const chosen = [...input.files].map((file) => [file.webkitRelativePath || file.name, file]);
  input.value = "";
  send(chosen);
});
box.addEventListener("dragover", (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  box.classList.add("ls-over");
});
box.addEventListener("dragleave", () => box.classList.remove("ls-over"));
box.addEventListener("drop", async (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  box.classList.remove("ls-over");
  send(await dropped(event.dataTransfer).catch(() => []));
});
form.addEventListener("submit", (event) => {
  if (!open || !event.submitter?.matches("#submit, [data-submit-too]")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  one("#refuses").textContent = "Wait for the code: it is still being uploaded.";
}, { capture: true });
addEventListener("beforeunload", (event) => { if (open) event.preventDefault(); });
