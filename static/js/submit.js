// The editor: line numbers, colours and problems under a plain textarea, and the panel that follows what is typed.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const form = one("form[data-submit]");
  const area = one("#config");
  const editor = one("[data-editor]");
  const under = one(".ls-under", editor);
  const gutter = one(".ls-gutter", editor);
  const token = new RegExp([  // comments, names, texts, numbers and words
    /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))/, /("(?:[^"\\\n]|\\.)*"(?=\s*:))/, /("(?:[^"\\\n]|\\.)*"?)/,
    /(-?\d[\d.eE+-]*|\b(?:true|false|null)\b)/,
  ].map((each) => each.source).join("|"), "g");
  const classes = ["c", "k", "s", "n"];
  let problems = new Map();  // line -> messages
  editor.classList.add("on");

  const span = (text, css) => {
    const node = document.createElement("span");
    if (css) node.className = css;
    node.textContent = text;
    return node;
  };

  const coloured = (text) => {
    const lines = [[]];
    const add = (piece, css) => piece.split("\n").forEach((part, at) => {
      if (at) lines.push([]);
      if (part) lines.at(-1).push(span(part, css));
    });
    let at = 0;
    for (const match of text.matchAll(token)) {
      add(text.slice(at, match.index), "");
      add(match[0], classes[match.slice(1).findIndex((group) => group !== undefined)]);
      at = match.index + match[0].length;
    }
    add(text.slice(at), "");
    return lines;
  };

  const draw = () => {
    const lines = coloured(area.value);
    area.rows = Math.max(18, lines.length + 1);
    under.replaceChildren(...lines.map((pieces, at) => {
      const said = problems.get(at + 1);
      const line = document.createElement("div");
      line.append(...pieces, "\u200b");
      if (said) { line.className = "bad"; line.append(span(`   ${said.join(" ")}`, "why")); }
      return line;
    }));
    gutter.replaceChildren(...lines.map((_, at) => {
      const number = document.createElement("div");
      number.textContent = at + 1;
      if (problems.has(at + 1)) number.className = "bad";
      return number;
    }));
    follow();
  };
  const follow = () => { under.scrollLeft = area.scrollLeft; };

  const read = () => {
    const panel = one("[data-plan]");
    problems = new Map();
    for (const item of panel.querySelectorAll("[data-line]")) {
      const line = Number(item.dataset.line);
      problems.set(line, [...(problems.get(line) ?? []), item.dataset.message]);
    }
    const refuses = panel.dataset.refuses;
    one("#refuses").textContent = refuses;
    one("#submit").toggleAttribute("disabled", Boolean(refuses));
    area.setAttribute("aria-invalid", String(problems.size > 0));
    draw();
  };

  // The old answer stays, dimmed, until the new one is there; only the newest question counts.
  let timer = 0;
  let asked = null;
  const check = async () => {
    asked?.abort();
    asked = new AbortController();
    const body = new FormData();
    body.set("config", area.value);
    try {
      const headers = { "X-CSRFToken": one("[name=csrfmiddlewaretoken]", form).value };
      const answer = await fetch("/submit/check", { method: "POST", body, headers, signal: asked.signal });
      if (!answer.ok || answer.redirected) return;
      one("#plan").innerHTML = await answer.text();
      read();
    } catch (error) {
      if (error.name !== "AbortError") one("#plan").classList.remove("dim");
      return;
    }
    one("#plan").classList.remove("dim");
  };
  // ---- what was typed and not sent is kept in this browser, by user ----
  const draftKey = form.dataset.draft;
  const note = one("#draft");
  const given = "unsent" in form.dataset ? "" : area.value;  // what nobody has typed
  let kept = true;
  const store = (act) => { try { act(localStorage); return true; } catch { return false; } };
  const draft = () => { let found = null; store((at) => { found = JSON.parse(at.getItem(draftKey)); }); return found; };
  const isSecret = (text) => /["']?secrets["']?\s*:/.test(text);  // whoever uses this browser next could read it
  const keep = () => {
    kept = area.value.trim() && area.value !== given
      ? !isSecret(area.value)
        && store((at) => at.setItem(draftKey, JSON.stringify({ text: area.value, at: Date.now() })))
      : store((at) => at.removeItem(draftKey));
  };
  const offer = () => {
    const old = draft();
    if (!old?.text || old.text === given) return;
    const shown = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
    const at = new Date(old.at).toLocaleString("en-GB", shown);
    one("span", note).textContent = "fresh" in form.dataset
      ? `What you had typed is back. You left it on ${at}.` : `You left another text unsent on ${at}.`;
    one("[data-restore]", note).hidden = "fresh" in form.dataset;
    note.hidden = false;
    if ("fresh" in form.dataset) { area.value = old.text; changed(); }
  };
  note.addEventListener("click", (event) => {
    if (event.target.matches("[data-restore]")) { area.value = draft().text; changed(); }
    else if (event.target.matches("[data-discard]")) {
      if ("fresh" in form.dataset) { area.value = ""; changed(); }
      store((at) => at.removeItem(draftKey));
    } else return;
    note.hidden = true;
  });
  form.addEventListener("submit", () => { kept = true; });  // it is forgotten once the portal has taken the job
  addEventListener("beforeunload", (event) => { if (!kept) event.preventDefault(); });

  const changed = () => {
    keep();
    one("#submit").removeAttribute("disabled");
    one("#refuses").textContent = "";
    draw();
    clearTimeout(timer);
    one("#plan").classList.add("dim");
    timer = setTimeout(check, 400);
  };

  const startOf = (line) => area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  form.addEventListener("click", (event) => {
    const link = event.target.closest("[data-goto]");
    if (!link) return;
    event.preventDefault();
    const start = startOf(Number(link.dataset.goto));
    area.focus();
    area.setSelectionRange(start, start);
  });
  area.addEventListener("input", changed);
  area.addEventListener("scroll", follow);
  one("[data-load]").hidden = true;
  one("#file").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (!file) { one("#refuses").textContent = ""; return; }
    if (file.size > 100 * 1024) {
      one("#refuses").textContent = "The file is larger than 100 kB, so it is no job config.";
      return;
    }
    area.value = await file.text();
    event.target.value = "";
    changed();
  });
  if ("unsent" in form.dataset) keep();
  else offer();
  read();
  if (area.value.trim() && !one("[data-plan] .ls-state")) check();
})();
