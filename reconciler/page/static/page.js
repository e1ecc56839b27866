// The page in motion: it hears of changes and asks for itself again, moves
// between pages without loading them anew, filters as one types, and keeps
// times. Everything works without it, only not by itself.

const main = () => document.getElementById("main");
const live = document.getElementById("live");
const FRAGMENT = { "X-Writ-Fragment": "1" };

// ---- Changing a page in place ----------------------------------------------

// morph makes a like b, keeping what is the same: focus, scroll, selection, and
// which details people have opened stay.
function morph(a, b) {
  if (a.nodeType === Node.TEXT_NODE) {
    if (a.data !== b.data) a.data = b.data;
    return;
  }
  if (a.nodeType !== Node.ELEMENT_NODE || a.isEqualNode(b)) return;
  attributes(a, b);
  const before = a.tagName === "LI" && a.id ? a.textContent : null;
  children(a, b);
  if (before !== null && timeless(before) !== timeless(a.textContent)) flash(a);
}

// timeless is a text without its ages: that time goes by is no change.
const timeless = (s) => s.replace(/[\d.]+(ms|[smhdy])([\d.]+[smhd])?( ago| old)?/g, "").replace(/\s+/g, " ");

function flash(e) {
  e.classList.remove("changed");
  void e.offsetWidth;
  e.classList.add("changed");
  e.addEventListener("animationend", () => e.classList.remove("changed"), { once: true });
}

function attributes(a, b) {
  const focused = a === document.activeElement;
  for (const { name, value } of b.attributes) {
    if (name === "open" && a.tagName === "DETAILS") continue;
    if (a.getAttribute(name) !== value) a.setAttribute(name, value);
  }
  for (const { name } of [...a.attributes]) {
    if (!b.hasAttribute(name) && !(name === "open" && a.tagName === "DETAILS")) a.removeAttribute(name);
  }
  if (a.tagName === "INPUT" && !focused && a.type !== "hidden") a.value = b.getAttribute("value") || "";
  if (a.tagName === "OPTION") a.selected = b.hasAttribute("selected");
}

function children(a, b) {
  const known = new Map();
  for (const c of a.children) if (c.id) known.set(c.id, c);
  let at = a.firstChild;
  for (const want of [...b.childNodes]) {
    const have = want.id ? known.get(want.id) : undefined;
    if (have && have.tagName === want.tagName) {
      known.delete(want.id);
      if (have === at) at = at.nextSibling;
      else a.insertBefore(have, at);
      morph(have, want);
    } else if (!want.id && at && !at.id && at.nodeType === want.nodeType && at.nodeName === want.nodeName) {
      const next = at.nextSibling;
      morph(at, want);
      at = next;
    } else {
      const added = a.insertBefore(document.importNode(want, true), at);
      if (added.tagName === "LI" && added.id) flash(added);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// ---- Asking for a page ------------------------------------------------------

let etag = document.body.dataset.tag;
let asking = null;

// load asks for a page. move says that it is another one, not this one again.
async function load(url, move) {
  asking?.abort();
  const mine = (asking = new AbortController());
  const headers = { ...FRAGMENT };
  if (!move && etag) headers["If-None-Match"] = etag;
  let answer, text;
  try {
    answer = await fetch(url, { headers, signal: mine.signal, cache: "no-store" });
    if (answer.status === 304) return true;
    text = await answer.text();
  } catch (e) {
    if (e.name === "AbortError") return true;
    return false;
  }
  if (answer.status === 401) return location.reload();
  if (!answer.headers.get("Content-Type")?.startsWith("text/html")) return false;
  const next = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (!next || mine !== asking) return false;
  etag = answer.headers.get("ETag") || "";
  if (move) main().replaceWith(document.importNode(next, true));
  else morph(main(), next);
  settle();
  return true;
}

// settle does what a new content needs.
function settle() {
  document.title = main().dataset.title;
  const here = location.pathname.split("/")[2] || "";
  for (const a of document.querySelectorAll(".side nav a")) {
    if (a.pathname === "/ui/" + here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  for (const b of document.querySelectorAll("[data-copy]")) b.hidden = false;
  tick();
  listen();
}

async function go(url, push) {
  if (push) history.pushState(null, "", url);
  if (!(await load(url, true))) return location.assign(url);
  if (push) {
    scrollTo(0, 0);
    main().focus({ preventScroll: true });
  }
  show();
}

// show brings the object of the page into sight.
function show() {
  const canvas = document.querySelector(".canvas");
  const card = canvas?.querySelector(".current");
  if (!card) return;
  const c = canvas.getBoundingClientRect(), k = card.getBoundingClientRect();
  if (k.right > c.right || k.left < c.left) canvas.scrollLeft += k.left - c.left - 60;
  if (k.bottom > c.bottom || k.top < c.top) canvas.scrollTop += k.top - c.top - c.height / 2;
}

document.addEventListener("click", (e) => {
  const copy = e.target.closest("[data-copy]");
  if (copy) {
    navigator.clipboard?.writeText(copy.dataset.copy).then(() => copy.classList.add("done"));
    return;
  }
  const a = e.target.closest("a[href]");
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || a.target) return;
  if (a.origin !== location.origin || !a.pathname.startsWith("/ui/") || a.pathname.startsWith("/ui/static/")) return;
  if (a.hash && a.pathname === location.pathname && a.search === location.search) return;
  e.preventDefault();
  go(a.href, true);
});
addEventListener("popstate", () => go(location.href, false));

// ---- Filters ------------------------------------------------------------------

let typing = 0;
function filter(form) {
  const q = new URLSearchParams();
  for (const [k, v] of new FormData(form)) if (v) q.set(k, v);
  const url = form.getAttribute("action") + (q.size ? "?" + q : "");
  history.replaceState(null, "", url);
  etag = "";
  load(url, false);
}
document.addEventListener("input", (e) => {
  const form = e.target.form;
  if (!form?.matches("[data-filter]") || e.target.tagName === "SELECT") return;
  clearTimeout(typing);
  typing = setTimeout(filter, 120, form);
});
document.addEventListener("change", (e) => {
  if (e.target.tagName === "SELECT" && e.target.form?.matches("[data-filter]")) filter(e.target.form);
});
document.addEventListener("submit", (e) => {
  if (!e.target.matches("[data-filter]")) return;
  e.preventDefault();
  filter(e.target);
});

// ---- Changes of the cluster -----------------------------------------------------

let source = null, topics = "", again = 0, busy = false, due = false;

function status(state, text) {
  if (live.className !== "live " + state) live.className = "live " + state;
  if (live.lastChild.textContent !== text) live.lastChild.textContent = text;
}

// refresh asks for the page once more, and again if more has changed meanwhile.
async function refresh() {
  if (busy) return void (due = true);
  busy = true;
  do {
    due = false;
    await load(location.href, false);
  } while (due);
  busy = false;
}

function listen() {
  const want = document.hidden ? "" : main().dataset.live;
  if (want === topics && (source || !want)) return;
  source?.close();
  source = null;
  topics = want;
  if (!want) return;
  const s = (source = new EventSource("/ui/live?topics=" + encodeURIComponent(want)));
  s.addEventListener("open", () => {
    status("on", "Live");
    refresh(); // what has changed since the page was made
  });
  s.addEventListener("changed", refresh);
  s.addEventListener("error", () => {
    status("off", "Reconnecting");
    if (s.readyState !== EventSource.CLOSED || s !== source) return;
    // The server refused: the browser does not try again by itself.
    source = null;
    topics = "";
    clearTimeout(again);
    again = setTimeout(listen, 10_000);
  });
}
document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => source?.close());

// ---- Times ----------------------------------------------------------------------

// ago is an age in the words of kubectl.
function ago(seconds) {
  const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (s < 120) return s + "s";
  if (m < 10) return s % 60 ? m + "m" + (s % 60) + "s" : m + "m";
  if (m < 180) return m + "m";
  if (h < 8) return m % 60 ? h + "h" + (m % 60) + "m" : h + "h";
  if (h < 48) return h + "h";
  if (h < 192) return h % 24 ? d + "d" + (h % 24) + "h" : d + "d";
  if (d < 730) return d + "d";
  return Math.floor(d / 365) + "y";
}
function tick() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time[datetime]:not([data-keep])")) {
    const text = ago((now - Date.parse(t.dateTime)) / 1000) + ("short" in t.dataset ? "" : " ago");
    if (t.textContent !== text) t.textContent = text;
  }
}
setInterval(() => document.hidden || tick(), 10_000);

// ---- Keyboard and mouse -----------------------------------------------------------

const places = { o: "", c: "commits", b: "objects", n: "nodes", r: "repositories" };
let prefix = 0;
document.addEventListener("keydown", (e) => {
  if (e.metaKey || e.ctrlKey || e.altKey) return;
  const field = e.target.closest("input, select, textarea");
  if (field) {
    if (e.key === "Escape") field.blur();
    return;
  }
  if (e.key === "/") {
    const q = document.getElementById("q");
    if (q) {
      e.preventDefault();
      q.select();
    }
  } else if (e.key === "g") {
    prefix = Date.now();
  } else if (Date.now() - prefix < 1000 && e.key in places) {
    prefix = 0;
    go("/ui/" + places[e.key], true);
  } else if (e.key === "j" || e.key === "k") {
    const all = [...main().querySelectorAll(".commit a.title, .object a.title, .change summary, a.card")];
    const at = all.indexOf(document.activeElement);
    all[Math.min(Math.max(at + (e.key === "j" ? 1 : -1), 0), all.length - 1)]?.focus();
  }
});

// A tree that is larger than its window is moved with the mouse.
document.addEventListener("pointerdown", (e) => {
  const canvas = e.target.closest(".canvas");
  if (!canvas || e.target.closest("a") || e.button || e.pointerType !== "mouse") return;
  const x = e.clientX + canvas.scrollLeft, y = e.clientY + canvas.scrollTop;
  const move = (m) => {
    canvas.scrollLeft = x - m.clientX;
    canvas.scrollTop = y - m.clientY;
  };
  canvas.classList.add("drag");
  addEventListener("pointermove", move);
  addEventListener("pointerup", () => {
    removeEventListener("pointermove", move);
    canvas.classList.remove("drag");
  }, { once: true });
});

settle();
show();
