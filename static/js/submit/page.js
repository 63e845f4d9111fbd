// The submit page: its parts, what the server put into it, and how to ask the server.

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];
export const form = one("form[data-submit]"), area = one("#config");
export const known = JSON.parse(one("#known").textContent);  // {"vcs", "gpuTypes", "nonce"}
export const say = (text) => { one("#said").textContent = text; };

export const element = (tag, css = "", text = "") => {
  const node = document.createElement(tag);
  if (css) node.className = css;
  if (text) node.textContent = text;
  return node;
};
export const button = (text, label = "") => {
  const node = element("button", "btn tiny", text);
  node.type = "button";
  if (label) node.setAttribute("aria-label", label);
  return node;
};

// What the server answers to a form; AbortError when a newer question has taken its place. A sign-in in another tab
// ends the CSRF token of this page: the page that refuses it has the new one, for the same user only.
export const post = async (url, fields, signal) => {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  const send = () => {
    const headers = { "X-CSRFToken": one(TOKEN, form).value, Accept: "application/json" };
    return fetch(url, { method: "POST", body, headers, signal });
  };
  const answer = await send();
  return answer.status === 403 && renew(await answer.clone().text()) ? send() : answer;
};
const TOKEN = "[name=csrfmiddlewaretoken]";
export const readerOf = (page) => one(".ls-top a[href='/account']", page)?.getAttribute("aria-label");
const renew = (html) => {
  const page = new DOMParser().parseFromString(html, "text/html"), token = one(TOKEN, page)?.value;
  if (!token || readerOf(page) !== readerOf(document)) return false;
  for (const field of all(TOKEN)) field.value = token;
  return true;
};

// Calls the last of many calls, once they have paused for so many milliseconds.
export const settled = (pause, act) => {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => act(...given), pause); };
};
