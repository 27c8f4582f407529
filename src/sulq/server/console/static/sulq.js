// Comfort only: everything works without this file except live progress.
"use strict";

// The price while one types: worked out and rendered by the server, with the button that pays.
for (const form of document.querySelectorAll("form[data-price]")) {
  const box = form.querySelector("[data-price-box]"), place = document.querySelector("[data-price-here]");
  let waiting = 0, newest = 0, busy = false;
  const show = (lines, wrong, where = "") => {
    box.replaceChildren(...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = line;
      if (wrong) p.className = "wrong";
      return p;
    }));
    if (where) box.append(Object.assign(document.createElement("pre"), { className: "where", textContent: where }));
    if (form.elements.define) form.elements.define.setAttribute("aria-invalid", String(Boolean(where)));
    box.hidden = lines.length === 0;
  };
  const priced = (html) => {
    place.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
    place.querySelectorAll("form.once").forEach(once);
  };
  const look = async () => {
    const mine = ++newest, fields = new URLSearchParams(new FormData(form));
    if (form.elements.sql && !form.elements.sql.value.trim()) { busy = false; priced(""); return show([], false); }
    try {
      const reply = await fetch(form.dataset.price, { method: "POST", body: fields });
      const said = await reply.json();
      if (mine !== newest) return;
      const here = Boolean(place) && Boolean(said.html) && !form.action.endsWith("/rehearse");
      show(said.problem ? said.problem.split("\n") : here ? [] : said.lines, Boolean(said.problem), said.where);
      if (here) priced(said.html);
    } catch { if (mine === newest) show([], false); }
    if (mine === newest) busy = false;
  };
  const later = () => {
    if (place) priced(""); // a price of what stood here before
    clearTimeout(waiting);
    busy = true;
    waiting = setTimeout(look, 400);
  };
  form.addEventListener("input", later);
  // Ctrl+Enter pays what is priced, and otherwise asks for the price.
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const pay = place && place.querySelector("form.once button");
    if (busy) { clearTimeout(waiting); look(); } else if (pay) pay.click(); else form.requestSubmit();
  });
  if (form.elements.sql && form.elements.sql.value.trim() && !("priced" in form.dataset)) { busy = true; look(); }
}

// Of pages that stand in one line the one that is open is in sight.
for (const open of document.querySelectorAll(".tabs a[aria-current], .main-nav a[aria-current]")) {
  const line = open.parentElement;
  line.scrollLeft = open.offsetLeft - line.offsetLeft - (line.clientWidth - open.offsetWidth) / 2;
}

// On a phone the answer comes first: its question opens by a tap.
if (matchMedia("(max-width: 44rem)").matches) {
  for (const question of document.querySelectorAll(".fold-narrow")) question.open = false;
}

// Columns that are put into the question by a click, and offered with SQL's own words as one types.
for (const editor of document.querySelectorAll(".editor")) {
  const text = editor.querySelector("textarea"), columns = [], functions = editor.closest("form").elements.define;
  let last = text; // the box that one was in
  for (const box of [text, functions]) if (box) box.addEventListener("focus", () => { last = box; });
  const put = (start, end, word, box = text) => {
    box.focus();
    box.setRangeText(word, start, end, "end");
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  for (const name of document.querySelectorAll("[data-insert]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "insert";
    button.title = `Put ${name.dataset.insert} into the question`;
    name.replaceWith(button);
    button.append(name);
    columns.push(name.dataset.insert);
    button.addEventListener("click", () => {
      const before = last.value.slice(0, last.selectionStart);
      put(last.selectionStart, last.selectionEnd, (before && !/[\s(,]$/.test(before) ? " " : "") + name.dataset.insert, last);
    });
  }
  const words = [...columns.map((w) => [w, "column"]), ...editor.dataset.words.split("|").map((w) => [w, ""])];
  const list = document.createElement("ul");
  Object.assign(list, { className: "offers", hidden: true, id: "offers" });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Words to go on with");
  editor.append(list);
  text.setAttribute("aria-autocomplete", "list");
  text.setAttribute("aria-controls", "offers");
  let chosen = -1, start = 0;
  const close = () => { list.hidden = true; text.removeAttribute("aria-activedescendant"); };
  const choose = (i) => {
    chosen = i;
    [...list.children].forEach((li, at) => li.setAttribute("aria-selected", String(at === i)));
    text.setAttribute("aria-activedescendant", `offer-${i}`);
    list.children[i].scrollIntoView({ block: "nearest" });
  };
  const take = (i) => { put(start, text.selectionStart, list.children[i].dataset.word); close(); };
  const offer = () => {
    const before = text.value.slice(0, text.selectionStart);
    const typed = /[\p{L}_"][\p{L}\p{N}_"]*$/u.exec(before);
    const inText = (before.split("'").length - 1) % 2 === 1;
    if (!typed || inText || /[\p{L}\p{N}_]/u.test(text.value[text.selectionStart] || "")) return close();
    const low = typed[0].toLowerCase();
    const named = functions ? [...functions.value.matchAll(/^def\s+(\w+)/gm)].map((f) => [`${f[1]}(`, "function"]) : [];
    const found = [...named, ...words].filter(([w]) => w.toLowerCase().startsWith(low) && w.toLowerCase() !== low).slice(0, 8);
    if (!found.length) return close();
    start = typed.index;
    list.replaceChildren(...found.map(([word, kind], i) => {
      const li = document.createElement("li");
      li.id = `offer-${i}`;
      li.setAttribute("role", "option");
      li.dataset.word = word;
      li.textContent = word;
      if (kind) { const note = document.createElement("span"); note.className = "soft"; note.textContent = kind; li.append(note); }
      li.addEventListener("mousedown", (event) => { event.preventDefault(); take(i); });
      return li;
    }));
    const style = getComputedStyle(text), paper = document.createElement("canvas").getContext("2d");
    paper.font = `${style.fontSize} ${style.fontFamily}`;
    const lines = before.slice(0, start).split("\n"), line = parseFloat(style.lineHeight);
    const left = parseFloat(style.paddingLeft) + paper.measureText(lines.at(-1)).width;
    list.style.left = `${Math.min(left, text.clientWidth - 180)}px`;
    list.style.top = `${text.offsetTop + parseFloat(style.paddingTop) + lines.length * line - text.scrollTop + 4}px`;
    list.hidden = false;
    choose(0);
    chosen = -1; // Enter takes only what one went to
  };
  text.addEventListener("input", (event) => { if (event.isTrusted) offer(); });
  text.addEventListener("blur", close);
  text.addEventListener("click", close);
  text.addEventListener("keydown", (event) => {
    if (list.hidden || event.ctrlKey || event.metaKey) return;
    const last = list.children.length - 1;
    if (event.key === "ArrowDown") choose(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp") choose(chosen > 0 ? chosen - 1 : last);
    else if (event.key === "Tab" && !event.shiftKey) take(Math.max(chosen, 0));
    else if (event.key === "Enter" && chosen >= 0) take(chosen);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}

// SQL and Python with their words in colours: below a box, and where they are only read.
const WORDS = new Set(("select from where group by order having limit as and or not in is null like between case when then else end " +
  "distinct true false cast interval date asc desc filter over cube rollup grouping sets within def return if elif for lambda none").split(" "));
const TOKENS = /('(?:[^']|'')*'?)|("[^"]*"?)|(--[^\n]*|#[^\n]*)|((?<![\p{L}\p{N}_.])\d+(?:\.\d+)?)|([\p{L}_][\p{L}\p{N}_]*)/gu;
const painted = (source) => {
  const out = [];
  let at = 0;
  for (const found of source.matchAll(TOKENS)) {
    const [token, text, , note, number, word] = found, end = found.index + token.length;
    const kind = text ? "of-text" : note ? "of-note" : number ? "of-number" : !word ? "" :
      WORDS.has(word.toLowerCase()) ? "of-word" : /^\s*\(/.test(source.slice(end, end + 20)) ? "of-call" : "";
    out.push(source.slice(at, found.index), kind ? Object.assign(document.createElement("span"), { className: kind, textContent: token }) : token);
    at = end;
  }
  return [...out, source.slice(at)];
};
for (const text of document.querySelectorAll("textarea.code[name=sql], textarea.code[name=define]")) {
  const paper = Object.assign(document.createElement("div"), { className: "painted" }), below = document.createElement("pre");
  below.setAttribute("aria-hidden", "true");
  text.replaceWith(paper);
  paper.append(below, text);
  const follow = () => { below.style.width = `${text.clientWidth + 2}px`; below.style.transform = `translateY(${-text.scrollTop}px)`; };
  const paint = () => { below.replaceChildren(...painted(text.value), "\n"); follow(); };
  text.addEventListener("input", paint);
  text.addEventListener("scroll", follow);
  new ResizeObserver(follow).observe(text);
  paint();
}
for (const code of document.querySelectorAll(".examples code")) code.replaceChildren(...painted(code.textContent));

// Times are the reader's own; in UTC when one points at them, and always in reports.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime), two = (x) => String(x).padStart(2, "0");
  if (Number.isNaN(at.getTime()) || time.closest("[data-utc]")) continue;
  time.title = time.textContent;
  if (at.getTimezoneOffset()) time.textContent = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

// Answers on a board change places by dragging; Up and Down do the same without.
for (const board of document.querySelectorAll("[data-arrange]")) {
  const order = () => [...board.children].map((tile) => tile.dataset.answer).join(",");
  const save = async (before) => {
    const said = { csrf: board.querySelector("input[name=csrf]").value, order: order() };
    if (said.order === before) return;
    try {
      if ((await fetch(board.dataset.arrange, { method: "POST", body: new URLSearchParams(said) })).ok) return;
    } catch { /* shown as it is kept, below */ }
    location.reload();
  };
  for (const tile of board.children) {
    if (board.children.length < 2) break;
    const grip = Object.assign(document.createElement("span"), { className: "grip", textContent: "\u283f", title: "Drag to another place" });
    grip.setAttribute("aria-hidden", "true");
    tile.prepend(grip);
    grip.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      const before = order(), listening = new AbortController();
      let last = null;
      tile.classList.add("moving");
      const on = (kind, act) => document.addEventListener(kind, act, { signal: listening.signal });
      const drop = () => { listening.abort(); tile.classList.remove("moving"); save(before); };
      on("pointerup", drop);
      on("pointercancel", drop);
      on("pointermove", (now) => {
        const over = document.elementsFromPoint(now.clientX, now.clientY).map((x) => x.closest("[data-answer]")).find((x) => x && x.parentElement === board) || null;
        if (over === last) return;
        last = over;
        if (!over || over === tile) return;
        if (over.compareDocumentPosition(tile) & Node.DOCUMENT_POSITION_PRECEDING) over.after(tile); else over.before(tile);
      });
    });
  }
}

// A new line of Python begins below the one before, deeper after a colon.
for (const text of document.querySelectorAll("textarea[name=define]")) {
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.shiftKey || event.isComposing) return;
    const line = text.value.slice(0, text.selectionStart).split("\n").at(-1);
    const deeper = /^\s*/.exec(line)[0] + (/:\s*$/.test(line) ? "    " : "");
    if (!deeper) return;
    event.preventDefault();
    text.setRangeText(`\n${deeper}`, text.selectionStart, text.selectionEnd, "end");
    text.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

// Values that are offered are those of the column that was chosen.
for (const store of document.querySelectorAll("[data-values]")) {
  const form = store.closest("form");
  const of = (kind, name) => [...store.children].find((x) => x.dataset[kind] === name);
  for (const value of form.querySelectorAll("input[name^=v]")) {
    const column = form.elements[`c${value.name.slice(1)}`];
    const fit = () => {
      const known = of("valuesOf", column.value), range = of("rangeOf", column.value);
      if (known) value.setAttribute("list", known.id); else value.removeAttribute("list");
      value.placeholder = range ? range.textContent : "";
    };
    column.addEventListener("input", fit);
    fit();
  }
}

// One click pays once; the request id would see to it anyway.
function once(form) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button")) {
      setTimeout(() => {
        button.disabled = true;
        if (form.dataset.busy) button.textContent = form.dataset.busy;
      });
    }
  });
}
document.querySelectorAll("form.once").forEach(once);

// A late answer is asked for again when its seconds are over.
for (const said of document.querySelectorAll("[data-countdown]")) {
  let left = Number(said.dataset.countdown);
  const tick = () => {
    if (left <= 0) return said.closest("form").requestSubmit();
    said.textContent = `Asked again in ${left} ${left === 1 ? "second" : "seconds"}.`;
    left -= 1;
    setTimeout(tick, 1000);
  };
  tick();
}

// How far a model is; when it is there, the page is loaded again.
for (const card of document.querySelectorAll("[data-progress]")) {
  const bar = card.querySelector("progress");
  const look = async () => {
    try {
      const said = await (await fetch(card.dataset.progress)).json();
      if (said.state !== "running") return location.reload();
      bar.max = said.total;
      bar.value = said.done;
      card.querySelector("[data-steps]").textContent = `${said.done} of ${said.total} steps`;
      if (said.remaining_micro !== null) card.querySelector("[data-left]").textContent = `, ${(said.remaining_micro / 1e6).toLocaleString("en")} queries left`;
    } catch { /* asked again below */ }
    setTimeout(look, 500);
  };
  look();
}

// What a plan or a schema comes to while one types: worked out and rendered by the server.
for (const form of document.querySelectorAll("form[data-live]")) {
  const box = document.getElementById(form.dataset.into);
  let waiting = 0, newest = 0;
  const touched = new Set(); // columns that one has come to; only about these is complained
  const look = async () => {
    const mine = ++newest, fields = new URLSearchParams(new FormData(form));
    if ("touch" in form.dataset) fields.set("touched", [...touched].join(","));
    try {
      const reply = form.dataset.method === "post"
        ? await fetch(form.dataset.live, { method: "POST", body: fields })
        : await fetch(`${form.dataset.live}?${fields}`);
      const text = await reply.text();
      if (mine !== newest || !reply.ok) return;
      box.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    } catch { /* the button still works */ }
  };
  form.addEventListener("input", (event) => {
    const column = /^[a-z](\d+)$/.exec(event.target.name);
    if (column) touched.add(column[1]);
    clearTimeout(waiting);
    waiting = setTimeout(look, 250);
  });
}

// A file that is too large is not sent at all; of another one shows how much has arrived.
for (const form of document.querySelectorAll("form[data-most]")) {
  const file = form.querySelector("input[type=file]"), wrong = form.querySelector("[data-too-large]");
  const button = form.querySelector("button"), shown = form.querySelector("[data-sent]");
  const bar = shown.querySelector("progress"), words = shown.querySelector("[data-words]"), stop = shown.querySelector("button");
  file.addEventListener("change", () => {
    const large = file.files.length > 0 && file.files[0].size > Number(form.dataset.most);
    wrong.hidden = !large;
    button.disabled = large;
  });
  const size = (bytes) => bytes < 999500 ? `${Math.ceil(bytes / 1000)} KB` : `${(bytes / 1e6).toPrecision(3)} MB`;
  const ended = () => { shown.hidden = true; button.disabled = false; };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (now) => {
      bar.max = now.total;
      bar.value = now.loaded;
      words.textContent = now.loaded < now.total ? `${size(now.loaded)} of ${size(now.total)}` : "It has arrived; its columns are looked at.";
    });
    request.addEventListener("load", () => {
      if (request.status < 400) return location.assign(request.responseURL);
      const page = new DOMParser().parseFromString(request.responseText, "text/html").querySelector("main");
      const said = page && page.querySelector(".notice.bad, section.card.narrow"); // the refusal, above the form
      ended();
      document.querySelectorAll("[data-refused]").forEach((old) => old.remove());
      if (!said) return;
      said.dataset.refused = "";
      form.closest(".wide-left").before(said);
      said.scrollIntoView({ block: "center" });
    });
    request.addEventListener("error", () => { words.textContent = "The connection broke off. Nothing was kept; send it again."; button.disabled = false; });
    stop.onclick = () => { request.abort(); ended(); };
    bar.removeAttribute("value");
    words.textContent = "Sending …";
    shown.hidden = false;
    button.disabled = true;
    request.open("POST", form.action);
    request.send(new FormData(form));
  });
}

// Lines of a long table, found by their words.
for (const box of document.querySelectorAll("[data-filter]")) {
  const lines = document.querySelectorAll(`#${box.dataset.filter} tbody tr`);
  box.hidden = false;
  box.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const line of lines) line.hidden = !line.textContent.toLowerCase().includes(wanted);
  });
}

// Sliders beside numbers that one moves: by powers of ten, three figures.
for (const field of document.querySelectorAll("input[data-slide]")) {
  const [low, high] = field.dataset.slide.split(" ").map((x) => Math.log10(Number(x)));
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: low, max: high, step: (high - low) / 200 });
  slider.setAttribute("aria-label", `Move ${field.labels[0].textContent}`);
  const follow = () => { const x = Number(field.value.replaceAll(",", "")); if (x > 0) slider.value = Math.log10(x); };
  const whole = field.name === "queries" || field.name === "rows";
  slider.addEventListener("input", () => {
    const x = Number((10 ** slider.valueAsNumber).toPrecision(2));
    field.value = whole ? Math.max(1, Math.round(x)).toLocaleString("en") : x < 1e-6 ? x.toExponential() : String(x);
  });
  field.addEventListener("input", follow);
  follow();
  field.after(slider);
}

// A menu closes when one goes elsewhere.
const menus = [...document.querySelectorAll("details.menu")];
const closeMenus = (but) => { for (const menu of menus) if (menu !== but) menu.open = false; };
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => {
  const open = menus.find((menu) => menu.open);
  if (event.key !== "Escape" || !open) return;
  closeMenus(null);
  open.querySelector("summary").focus();
});

// What is shown once is copied by a press.
for (const secret of document.querySelectorAll(".secret code")) {
  if (!navigator.clipboard) break;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret.textContent);
    button.textContent = "Copied";
  });
  secret.after(button);
}
