// The log page: a window of lines that follows the end, loads what is above and below, and searches the whole log.
//
// The window is a run of line numbers without a gap, from view.first to view.last. Lines come from the stream while the
// window reaches the end of the log (view.atEnd), else from the server when the reader scrolls there.
"use strict";
(() => {
  const root = document.getElementById("log");
  if (!root) return;
  const part = (id) => document.getElementById(`log-${id}`);
  const box = part("box"), list = part("lines"), followButton = part("follow"), wrapLabel = part("wrap");
  const form = part("search"), field = form.elements.q;
  const MOST = 4000, PAGE = 500, NEAR = 400;
  const number = (name) => Number(root.dataset[name]) || 0;
  const live = root.dataset.live === "1";
  const view = {
    first: number("first"), last: number("last"), total: number("total"), size: number("size"),
    atEnd: number("last") >= number("total"), following: false, unseen: 0, loading: false, ended: !live,
  };
  const found = { text: "", lines: [], at: -1, counting: false, cursor: null };

  // --- lines ------------------------------------------------------------------------------------------------------

  // One of 16 million colours: its class is the nearest of 256.
  function tint(span, colour, background) {
    if (colour) span.style.color = colour;
    if (background) span.style.backgroundColor = background;
  }

  function row(line) {
    const item = document.createElement("li");
    item.id = `L${line.number}`;
    if (line.kind) item.className = line.kind;
    const link = document.createElement("a");
    link.href = `#L${line.number}`;
    link.textContent = line.number;
    const code = document.createElement("code");
    for (const [text, css, colour, background] of line.pieces ?? [[line.text, ""]]) {
      if (!css) { code.append(text); continue; }
      const span = document.createElement("span");
      span.className = css;
      span.textContent = text;
      tint(span, colour, background);
      code.append(span);
    }
    mark(code);
    if (line.note) {
      const note = document.createElement("i");
      note.textContent = line.note;
      code.append(note);
    }
    item.append(link, code);
    return item;
  }

  function place(lines, where) {
    const rows = document.createDocumentFragment();
    for (const line of lines) rows.append(row(line));
    if (where === "before") list.prepend(rows);
    else list.append(rows);
  }

  function replace(lines, total) {
    list.replaceChildren();
    place(lines, "after");
    view.first = lines.length ? lines[0].number : 1;
    view.last = lines.length ? lines[lines.length - 1].number : 0;
    learn(total);
  }

  function learn(total, size) {
    view.total = Math.max(view.total, total || 0, view.last);
    view.size = Math.max(view.size, size || 0);
    view.atEnd = view.last >= view.total;
    part("older").hidden = view.first <= 1;
    part("newer").hidden = view.atEnd;
    const lines = `${view.total.toLocaleString("en")} line${view.total === 1 ? "" : "s"}`;
    part("size").textContent = view.size ? `${megabytes(view.size)}, ${lines}` : lines;
  }

  function megabytes(size) {
    if (size < 1024) return `${size} bytes`;
    return size < 1048576 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1048576).toFixed(1)} MB`;
  }

  // What is far from the reader leaves the page; it comes back when he scrolls there.
  function trim(end) {
    while (list.children.length > MOST) {
      if (end === "top") { list.firstElementChild.remove(); view.first += 1; }
      else { list.lastElementChild.remove(); view.last -= 1; }
    }
    learn();
  }

  async function ask(url, values) {
    const asked = new URL(url, location.href);
    for (const [name, value] of Object.entries(values)) asked.searchParams.set(name, value);
    const answer = await fetch(asked, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The portal answered ${answer.status}.`);
    return answer.json();
  }

  // Loads follow each other. Scrolling asks again and again, so it waits for nothing; where the reader asked to go, the
  // page goes, also while something else is on its way.
  let queue = Promise.resolve();
  function load(work) {
    view.loading = true;
    const mine = queue = queue.then(work).catch((error) => say(error.message)).finally(() => {
      if (queue === mine) view.loading = false;
    });
    return mine;
  }
  const loadUnlessBusy = (work) => (view.loading ? Promise.resolve() : load(work));

  const loadOlder = () => loadUnlessBusy(async () => {
    if (view.first <= 1) return;
    const from = Math.max(1, view.first - PAGE);
    const got = await ask(root.dataset.lines, { from, count: view.first - from });
    const lines = got.lines.filter((line) => line.number < view.first);
    if (!lines.length) return;
    const height = box.scrollHeight, top = box.scrollTop;
    place(lines, "before");
    view.first = lines[0].number;
    box.scrollTop = top + box.scrollHeight - height;
    trim("bottom");
  });

  const loadNewer = () => loadUnlessBusy(async () => {
    if (view.atEnd) return;
    const got = await ask(root.dataset.lines, { from: view.last + 1, count: PAGE });
    const lines = got.lines.filter((line) => line.number > view.last);
    place(lines, "after");
    if (lines.length) view.last = lines[lines.length - 1].number;
    else view.total = Math.min(view.total, got.total);
    const height = box.scrollHeight, top = box.scrollTop;
    trim("top");
    box.scrollTop = top - (height - box.scrollHeight);
    learn(got.total, got.size);
  });

  const toEnd = () => load(async () => {
    if (!view.atEnd) {
      const got = await ask(root.dataset.lines, { count: PAGE });
      replace(got.lines, got.total);
    }
    box.scrollTop = box.scrollHeight;
  });

  const toLine = (wanted, focus) => load(async () => {
    if (wanted < view.first || wanted > view.last) {
      const got = await ask(root.dataset.lines, { from: Math.max(1, wanted - 100), count: PAGE });
      replace(got.lines, got.total);
    }
    const item = document.getElementById(`L${wanted}`);
    for (const old of list.querySelectorAll(".at")) old.classList.remove("at");
    if (!item) return;
    item.classList.add("at");
    item.scrollIntoView({ block: "center" });
    if (focus) history.replaceState(null, "", `#L${wanted}`);
  });

  // --- the stream ---------------------------------------------------------------------------------------------------

  function take(lines) {
    const keep = view.following, fresh = [];
    let known = view.last;
    for (const line of lines) {
      if (line.number <= view.last) {
        const old = document.getElementById(`L${line.number}`);
        if (old && line.number >= view.first) old.replaceWith(row(line));
      } else if (view.atEnd && line.number === known + 1) {
        fresh.push(line);
        known = line.number;
      } else {
        view.atEnd = false;
      }
      matchNew(line);
    }
    place(fresh, "after");
    const before = view.total;
    view.last = known;
    learn(lines[lines.length - 1].number, lines[lines.length - 1].end);
    if (keep) {
      trim("top");
      box.scrollTop = box.scrollHeight;
    } else {
      view.unseen += view.total - before;
      if (list.children.length > MOST) trim("bottom");
    }
    showFollow();
  }

  function skip(data) {
    view.total = Math.max(view.total, data.to);
    if (view.following) {
      replace([], 0);
      view.first = data.to + 1;
      view.last = data.to;
      learn(data.to);
      say(`${data.lines.toLocaleString("en")} lines were written too fast to show. Scroll up for them.`);
    } else {
      view.unseen += data.lines;
      learn(data.to);
    }
    showFollow();
  }

  let source = null, resume = "", lost = null;

  function open() {
    if (source || view.ended) return;
    const url = new URL(root.dataset.stream, location.href);
    if (resume) url.searchParams.set("offset", resume);
    else url.searchParams.set("from", number("next") || 1);
    source = new EventSource(url);
    const on = (kind, act) => source.addEventListener(kind, (event) => {
      if (event.lastEventId) resume = event.lastEventId;
      act(JSON.parse(event.data));
    });
    on("lines", take);
    on("skip", skip);
    on("note", (data) => say(data.text));
    on("end", (data) => {
      view.ended = true;
      close();
      learn(data.lines, data.size);
      part("state").textContent = "All there is";
      view.following = false;
      showFollow();
    });
    source.onopen = () => {
      lost = null;
      part("state").textContent = "Live";
    };
    source.onerror = () => {
      lost = lost || new Date();
      part("state").textContent = `Not live since ${lost.toTimeString().slice(0, 5)}, trying again`;
      if (source && source.readyState === EventSource.CLOSED) {  // refused: the browser will not try by itself
        close();
        setTimeout(open, 5000);
      }
    };
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  function say(text) {
    const note = part("note");
    note.textContent = text;
    note.hidden = !text;
  }

  // --- following ------------------------------------------------------------------------------------------------------

  const atBottom = () => box.scrollHeight - box.scrollTop - box.clientHeight < 24;

  function showFollow() {
    followButton.hidden = view.ended && view.atEnd;
    followButton.setAttribute("aria-pressed", String(view.following));
    box.setAttribute("aria-live", view.following ? "polite" : "off");
    const lines = view.unseen.toLocaleString("en");
    const idle = view.ended ? "To the end" : view.unseen ? `Follow, ${lines} new line${view.unseen === 1 ? "" : "s"}` : "Follow";
    followButton.querySelector("span").textContent = view.following ? "Following" : idle;
  }

  async function follow(on) {
    view.following = on && !view.ended;
    if (on) {
      view.unseen = 0;
      await toEnd();
    }
    showFollow();
  }

  // Only the reader's own hand ends following: the page's own scrolling fires the same event.
  let lastTop = 0;
  box.addEventListener("scroll", () => {
    const up = box.scrollTop < lastTop;
    lastTop = box.scrollTop;
    if (view.following && up && !atBottom()) follow(false);
    else if (!view.following && !view.ended && !up && view.atEnd && atBottom()) follow(true);
    if (box.scrollTop < NEAR && up) loadOlder();
    if (!view.atEnd && !up && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR) loadNewer();
  }, { passive: true });

  followButton.addEventListener("click", () => follow(!view.following));
  part("older").firstElementChild.addEventListener("click", (event) => { event.preventDefault(); loadOlder(); });
  part("newer").firstElementChild.addEventListener("click", (event) => { event.preventDefault(); loadNewer(); });
  part("top").addEventListener("click", (event) => { event.preventDefault(); follow(false); toLine(1); });
  part("end").addEventListener("click", (event) => { event.preventDefault(); follow(true); });

  // --- wrap -----------------------------------------------------------------------------------------------------------

  const wrap = wrapLabel.querySelector("input");
  function setWrap(on) {
    wrap.checked = on;
    box.classList.toggle("ls-long", !on);
    try { localStorage.setItem("log-wrap", on ? "1" : "0"); } catch { /* not allowed to keep it */ }
    if (view.following) box.scrollTop = box.scrollHeight;
  }
  wrap.addEventListener("change", () => setWrap(wrap.checked));

  // --- search ---------------------------------------------------------------------------------------------------------

  const folded = (text, like) => (like === like.toLowerCase() ? text.toLowerCase() : text);

  function mark(code) {
    if (!found.text) return;
    const text = code.textContent, inside = folded(text, found.text);
    const hits = [], length = found.text.length;
    for (let at = inside.indexOf(found.text); at >= 0; at = inside.indexOf(found.text, at + length)) hits.push(at);
    if (!hits.length || inside.length !== text.length) return;
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    let start = 0;
    for (const node of nodes) {  // a match may lie across pieces of different colours
      const end = start + node.length, parts = [];
      let from = start;
      for (const hit of hits) {
        const first = Math.max(hit, start), last = Math.min(hit + length, end);
        if (first >= last) continue;
        const marked = document.createElement("mark");
        marked.textContent = text.slice(first, last);
        parts.push(text.slice(from, first), marked);
        from = last;
      }
      if (parts.length) node.replaceWith(...parts, text.slice(from, end));
      start = end;
    }
  }

  function remark() {
    for (const code of list.querySelectorAll("code")) {
      const note = code.querySelector("i");
      if (note) note.remove();
      for (const old of code.querySelectorAll("mark")) old.replaceWith(...old.childNodes);
      code.normalize();
      mark(code);
      if (note) code.append(note);
    }
  }

  function matchNew(line) {
    if (!found.text || found.counting || line.partial || line.number <= (found.lines[found.lines.length - 1] || 0)) return;
    if (!folded(line.text, found.text).includes(found.text)) return;
    found.lines.push(line.number);
    showFound();
  }

  function showFound() {
    const has = found.lines.length > 0, count = found.lines.length.toLocaleString("en");
    const at = found.at >= 0 ? `${(found.at + 1).toLocaleString("en")} of ${count}` : count;
    part("found").textContent = found.text
      ? `${at} in ${view.total.toLocaleString("en")} lines${found.counting ? " so far" : ""}` : "";
    part("prev").hidden = part("next").hidden = !has;
  }

  let asking = 0;
  async function search(text) {
    const mine = (asking += 1);
    Object.assign(found, { text, lines: [], at: -1, counting: Boolean(text) });
    remark();
    showFound();
    let cursor = 0;
    try {
      while (text && cursor !== null && found.lines.length < 100000) {
        const got = await ask(root.dataset.search, { q: text, cursor });
        if (mine !== asking) return;
        const last = found.lines[found.lines.length - 1] || 0;
        for (const line of got.lines) if (line > last) found.lines.push(line);
        cursor = got.cursor;
        showFound();
        if (found.at < 0 && found.lines.length) step(1);
      }
    } catch (error) { say(error.message); }
    if (mine !== asking) return;
    found.counting = false;
    showFound();
  }

  function step(by) {
    if (!found.lines.length) return;
    found.at = (found.at + by + found.lines.length) % found.lines.length;
    follow(false);
    const wanted = found.lines[found.at];
    toLine(wanted).then(() => {
      for (const old of list.querySelectorAll("mark.cur")) old.classList.remove("cur");
      const item = document.getElementById(`L${wanted}`);
      const hit = item && item.querySelector("mark");
      if (hit) hit.classList.add("cur");
    });
    showFound();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value;
    const asked = folded(text, text);
    if (asked && asked === found.text) step(1);
    else search(asked);
  });
  field.addEventListener("input", () => { if (!field.value) search(""); });
  part("prev").addEventListener("click", () => step(-1));
  part("next").addEventListener("click", () => step(1));

  // --- keys, permalinks, start ----------------------------------------------------------------------------------------

  const keys = {
    "/": () => field.focus(), n: () => step(1), N: () => step(-1), f: () => follow(!view.following),
    w: () => setWrap(!wrap.checked), G: () => follow(true),
  };
  let g = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape" && event.target === field) box.focus();
      return;
    }
    if (event.key === "g" && event.timeStamp - g < 1000) { g = 0; follow(false); toLine(1); return; }
    if (event.key === "g") { g = event.timeStamp; return; }
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    act();
  }, true);

  function toHash() {
    const wanted = /^#L(\d{1,10})$/.exec(location.hash);
    if (!wanted) return false;
    follow(false);
    toLine(Number(wanted[1]), true);
    return true;
  }
  addEventListener("hashchange", toHash);
  list.addEventListener("click", (event) => {
    const link = event.target.closest("li > a");
    if (link) { event.preventDefault(); follow(false); toLine(Number(link.textContent), true); }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  for (const span of list.querySelectorAll("[data-colour], [data-background]"))
    tint(span, span.dataset.colour, span.dataset.background);
  wrapLabel.hidden = false;
  let wrapped = true;
  try { wrapped = localStorage.getItem("log-wrap") !== "0"; } catch { /* not allowed to look */ }
  setWrap(wrapped);
  learn();
  part("state").textContent = view.ended ? "All there is" : "Connecting";
  if (!toHash() && root.dataset.moved !== "1") {
    box.scrollTop = box.scrollHeight;
    view.following = live;
  }
  lastTop = box.scrollTop;
  showFollow();
  if (field.value) search(folded(field.value, field.value));
  open();
})();
