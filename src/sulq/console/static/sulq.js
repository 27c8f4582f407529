// Comfort only: everything works without this file except live progress.
"use strict";

// The price while one types: asked of the server, shown as plain text.
for (const form of document.querySelectorAll("form[data-price]")) {
  const box = form.querySelector("[data-price-box]");
  let waiting = 0, newest = 0;
  const show = (lines, wrong) => {
    box.replaceChildren(...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = line;
      if (wrong) p.className = "wrong";
      return p;
    }));
    box.hidden = lines.length === 0;
  };
  const look = async () => {
    const mine = ++newest, fields = new URLSearchParams(new FormData(form));
    if (form.elements.sql && !form.elements.sql.value.trim()) return show([], false);
    try {
      const reply = await fetch(form.dataset.price, { method: "POST", body: fields });
      const said = await reply.json();
      if (mine === newest) show(said.problem ? said.problem.split("\n") : said.lines, Boolean(said.problem));
    } catch { if (mine === newest) show([], false); }
  };
  const later = () => {
    const old = document.getElementById("price"); // of what stood here before
    if (old) old.hidden = true;
    clearTimeout(waiting);
    waiting = setTimeout(look, 400);
  };
  form.addEventListener("input", later);
  if (form.elements.sql && form.elements.sql.value.trim() && !("priced" in form.dataset)) look();
}

// One click pays once; the request id would see to it anyway.
for (const form of document.querySelectorAll("form.once")) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button")) setTimeout(() => { button.disabled = true; });
  });
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
  const look = async () => {
    const mine = ++newest, fields = new URLSearchParams(new FormData(form));
    try {
      const reply = form.dataset.method === "post"
        ? await fetch(form.dataset.live, { method: "POST", body: fields })
        : await fetch(`${form.dataset.live}?${fields}`);
      const text = await reply.text();
      if (mine !== newest || !reply.ok) return;
      box.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    } catch { /* the button still works */ }
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 250); });
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
    field.value = whole ? Math.max(1, Math.round(x)) : x < 1e-6 ? x.toExponential() : String(x);
  });
  field.addEventListener("input", follow);
  follow();
  field.after(slider);
}
