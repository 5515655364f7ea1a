(() => {
  // A run in progress: the server sends each sample, this draws them. Without it the page shows the last state.
  const root = document.querySelector("[data-run]");
  if (!root || !window.EventSource) return;
  const svg = root.querySelector("svg.live");
  const say = (name, text) => { const one = root.querySelector(`[data-live="${name}"]`); if (one && one.textContent !== text) one.textContent = text; };
  const points = [];
  const make = (name, attributes, text) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const draw = () => {
    const seen = points.filter((one) => one.value !== null);
    if (!seen.length) return;
    const width = Math.max(240, svg.clientWidth), left = 60, right = width - 10, top = 14, bottom = 206;
    svg.setAttribute("viewBox", `0 0 ${width} 240`); // at whatever width there is, so that words keep their size
    const end = Math.max(1, points[points.length - 1].at_s), high = Math.max(...seen.map((one) => one.value)) * 1.1 || 1;
    const x = (s) => left + (s / end) * (right - left), y = (v) => bottom - (v / high) * (bottom - top);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const v = high * share / 1.1;
      parts.push(make("line", { x1: left, x2: right, y1: y(v), y2: y(v), class: "grid" }));
      parts.push(make("text", { x: left - 7, y: y(v) + 4, "text-anchor": "end", class: "tick" }, v.toPrecision(3)));
    }
    let last = null;
    for (const one of points) {
      if (one.phase !== last) {
        parts.push(make("line", { x1: x(one.at_s), x2: x(one.at_s), y1: top, y2: bottom, class: "axis" }));
        if (points.length < 400) parts.push(make("text", { x: x(one.at_s) + 3, y: top + 8, class: "tick" }, one.phase));
        last = one.phase;
      }
    }
    parts.push(make("path", { d: seen.map((one, i) => `${i ? "L" : "M"}${x(one.at_s).toFixed(1)} ${y(one.value).toFixed(1)}`).join(""), class: "curve" }));
    parts.push(make("text", { x: right, y: bottom + 18, "text-anchor": "end", class: "tick" }, `${end.toFixed(0)} s`));
    svg.replaceChildren(...parts);
  };
  new ResizeObserver(draw).observe(svg);
  let waiting = false;
  const source = new EventSource(`/api/v1/runs/${root.dataset.run}/events?after=${root.dataset.after}`);
  source.addEventListener("sample", (event) => {
    const one = JSON.parse(event.data);
    points.push(one);
    if (points.length > 2000) points.shift();
    say("phase", one.phase);
    say("label", ` ${one.label}`);
    if (one.value !== null) say("value", `${one.value.toPrecision(4)} a second, ${one.iterations} so far`);
    if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); }
  });
  source.addEventListener("end", (event) => {
    source.close();
    say("phase", `ended: ${JSON.parse(event.data).state}`);
  });
})();

(() => {
  // A signed entry is read in the browser into the field that is sent; without this it is pasted there.
  const file = document.querySelector("input[data-fills]");
  if (!file) return;
  const field = document.getElementById(file.dataset.fills);
  file.addEventListener("change", async () => {
    if (file.files.length && file.files[0].size <= field.maxLength) field.value = await file.files[0].text();
  });
})();

(() => {
  // Runs in progress in their list: asked for again while somebody looks, and put in where something changed.
  const now = location.pathname === "/runs" && document.getElementById("now"), EVERY_MS = 2000;
  if (!now) return;
  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/runs", { headers: { Accept: "text/html" } });
      const fresh = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("now");
      if (fresh && fresh.textContent !== now.textContent && !now.contains(document.activeElement)) now.replaceChildren(...fresh.childNodes);
    } catch { /* the server is away: the next time tells */ }
  };
  setInterval(look, EVERY_MS);
})();
