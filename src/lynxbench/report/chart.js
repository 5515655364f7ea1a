(() => {
  // Plots that can be touched: drawn anew from the data beside the picture. Without this script the picture remains.
  const drawn = document.querySelector("figure[data-chart] svg");
  if (!drawn) return;
  const SVG = drawn.namespaceURI, SLOTS = 6, NEAR = 28, KEPT = 1e-3;
  const svgNode = (name, attributes = {}, text) => fill(document.createElementNS(SVG, name), attributes, text);
  const node = (name, attributes = {}, text) => fill(document.createElement(name), attributes, text);
  const fill = (one, attributes, text) => {
    for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined && value !== false) one.setAttribute(key, value === true ? "" : value);
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const tip = node("div", { class: "tip lines", "aria-hidden": "true", hidden: true });
  document.body.append(tip);

  // --- numbers and moments ------------------------------------------------------------------------------------------
  const grouped = (text) => text.replace("-", "−").replace(/^(−?)(\d+)/, (_, sign, whole) => sign + whole.replace(/\B(?=(\d{3})+$)/g, "\u202f"));
  const digits = (value, many = 4) => {
    if (value === 0) return "0";
    const power = Math.floor(Math.log10(Math.abs(value)));
    if (power < -4 || power > 9) return value.toExponential(many - 1).replace("-", "−");
    return grouped(value.toFixed(Math.max(0, many - 1 - power)));
  };
  const pad = (value) => String(value).padStart(2, "0");
  const day = (date) => `${date.getUTCFullYear()}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
  const clock = (date) => `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}`;
  const moment = (s) => { const date = new Date(s * 1000); return `${day(date)} ${clock(date)}:${pad(date.getUTCSeconds())} UTC`; };
  const stepOf = (span, about) => {
    const rough = span / Math.max(1, about), power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough * 0.999);
  };
  const ticksOf = (low, high, about) => {
    if (!(high > low)) return [];
    const step = stepOf(high - low, about), shown = [], decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && shown.length < 100; at += 1) shown.push([at * step, grouped((at * step).toFixed(decimals))]);
    return shown;
  };
  const CALENDAR = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800];
  const MONTHS = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
  const dateTicks = (low, high, about) => {
    const rough = (high - low) / Math.max(1, about), step = CALENDAR.find((each) => each >= rough), shown = [];
    if (step === undefined) {
      const months = MONTHS.find((each) => each * 2629746 >= rough) || 1200, first = new Date(low * 1000);
      for (let at = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months; shown.length < 100; at += months) {
        const s = Date.UTC(Math.floor(at / 12), at % 12) / 1000;
        if (s > high) break;
        if (s >= low) shown.push([s, months >= 12 ? String(Math.floor(at / 12)) : `${Math.floor(at / 12)}-${pad(at % 12 + 1)}`]);
      }
      return shown;
    }
    const origin = step === 604800 ? 345600 : 0; // weeks begin on Monday; 1970-01-05 was one
    let before = "";
    for (let at = Math.ceil((low - origin) / step) * step + origin; at <= high && shown.length < 100; at += step) {
      const date = new Date(at * 1000), own = day(date);
      const time = step < 60 ? `${clock(date)}:${pad(date.getUTCSeconds())}` : clock(date);
      shown.push([at, step >= 86400 ? own : own === before ? time : `${own.slice(5)} ${time}`]);
      before = own;
    }
    return shown;
  };
  const below = (list, value) => { // places before the first that is not smaller
    let a = 0, b = list.length;
    while (a < b) { const middle = (a + b) >> 1; if (list[middle] < value) a = middle + 1; else b = middle; }
    return a;
  };

  let count = 0;
  class TouchedPlot {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.dataset.chart);
      this.number = count++;
      this.time = this.data.axis === "time";
      this.even = this.data.even;
      this.overlay = "";
      this.hidden = new Set();
      this.pictures = [...figure.querySelectorAll("svg.plot")];
      const name = this.pictures[0].getAttribute("aria-label");
      this.plot = svgNode("svg", { class: "plot touched", role: "group", tabindex: "0", "aria-label": name, "aria-roledescription": "plot", "aria-describedby": `hint-${this.number}` });
      this.said = node("p", { class: "aside", role: "status" });
      this.tools = node("div", { class: "tools" });
      this.legend = node("ul", { class: "legend toggles" });
      this.prepare();
      this.pictures[0].before(this.tools, this.plot, this.said, this.legend);
      for (const picture of this.pictures) picture.remove();
      this.makeTools();
      this.listen();
      new ResizeObserver(() => { if (this.figure.clientWidth !== this.width) this.draw(); }).observe(figure);
      this.draw();
    }

    // --- what is drawn ----------------------------------------------------------------------------------------------
    prepare() {
      const all = new Set();
      for (const panel of this.data.panels) for (const track of panel.tracks) {
        if (!Array.isArray(track.ids)) track.ids = track.ids ? track.ids.split(" ") : [];
        if (!(track.hollow instanceof Set)) track.hollow = new Set(track.open || []);
        for (const x of track.x) all.add(x);
        if (track.hidden && !this.asked) this.hidden.add(track.name);
      }
      this.asked = true;
      this.moments = Float64Array.from(all).sort();
      const ends = [this.moments[0], this.moments[this.moments.length - 1]];
      for (const panel of this.data.panels) for (const [a, b] of panel.bands || []) { ends[0] = Math.min(ends[0], a); ends[1] = Math.max(ends[1], b); }
      this.ends = ends;
      this.space();
    }
    space() { // places on the axis: the value itself, or its rank where all are to stand evenly
      for (const panel of this.data.panels) for (const track of panel.tracks) track.u = track.x.map((x) => this.place(x));
      const [a, b] = this.even ? [0, this.moments.length - 1] : this.ends;
      const air = (b - a) * (this.time || this.even ? 0.02 : 0) || (b > a ? 0 : 1);
      this.whole = [a - air, b + air];
      this.view = [...this.whole];
    }
    place(x) {
      if (!this.even) return x;
      const at = below(this.moments, x);
      if (this.moments[at] === x || at === 0) return at;
      if (at >= this.moments.length) return this.moments.length - 1;
      return at - 1 + (x - this.moments[at - 1]) / (this.moments[at] - this.moments[at - 1]);
    }
    valueAt(u) { return this.even ? this.moments[Math.min(this.moments.length - 1, Math.max(0, Math.round(u)))] : u; }
    groupsOf(track) { return this.overlay && track.groups ? track.groups[this.overlay] : undefined; }
    names() { // what the legend lists, each with its colour
      const overlay = this.data.overlays.find(([name]) => name === this.overlay);
      if (overlay) return overlay[1];
      return [...new Set(this.data.panels.flatMap((panel) => panel.tracks.map((track) => track.name)))];
    }
    shownName(track, index) { const groups = this.groupsOf(track); return groups ? this.names()[groups[index]] : track.name; }
    isShown(track, index) {
      if (this.overlay && this.tracksHidden && this.tracksHidden.has(track.name)) return false;
      return !this.hidden.has(this.shownName(track, index));
    }
    isZoomed() { const span = this.whole[1] - this.whole[0]; return this.view[1] - this.view[0] < span * (1 - KEPT); }

    draw() {
      const width = this.figure.clientWidth;
      if (!width) return; // folded away: drawn when it is opened
      this.width = width;
      const panels = this.data.panels, many = panels.length, narrow = width < 560;
      const each = many === 1 ? 250 : many < 3 ? 170 : 124, head = 22, gap = 14;
      const left = narrow ? 52 : 64, right = 10;
      this.x = (u) => left + (u - this.view[0]) / (this.view[1] - this.view[0]) * (width - left - right);
      this.back = (px) => this.view[0] + (px - left) / (width - left - right) * (this.view[1] - this.view[0]);
      this.edges = [left, width - right];
      const bottom = many * (each + gap) - gap + 4, height = bottom + 24;
      const parts = [];
      const names = this.names();
      this.boxes = panels.map((panel, index) => ({ panel, top: index * (each + gap) + head, floor: index * (each + gap) + each }));
      const about = Math.max(2, Math.floor((width - left - right) / (this.time ? 110 : 90)));
      const ticks = this.xTicks(about);
      for (const box of this.boxes) parts.push(...this.drawPanel(box, names, ticks));
      let last = -Infinity;
      for (const [u, text] of ticks) {
        const half = text.length * 3.4, at = Math.min(Math.max(this.x(u), left - 30 + half), width - half);
        if (at - half < last + 8) continue;
        last = at + half;
        parts.push(svgNode("text", { x: at.toFixed(1), y: bottom + 16, "text-anchor": "middle", class: "tick" }, text));
      }
      this.cross = svgNode("g", { class: "cross" });
      this.brush = svgNode("rect", { class: "brush", visibility: "hidden", y: head - 4, height: bottom - head });
      this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.plot.setAttribute("height", height);
      this.plot.replaceChildren(...parts, this.brush, this.cross);
      this.figure.classList.toggle("zoomed", this.isZoomed());
      this.drawLegend(names);
      if (this.cursor) this.mark();
    }
    xTicks(about) {
      const [a, b] = this.view;
      if (this.even) {
        const step = Math.max(1, Math.ceil((b - a) / about)), shown = [];
        let before = "";
        for (let at = Math.max(0, Math.ceil(a)); at <= Math.min(b, this.moments.length - 1); at += step) {
          const date = new Date(this.moments[at] * 1000), own = day(date);
          shown.push([at, own === before ? clock(date) : own.slice(2)]);
          before = own;
        }
        return shown;
      }
      if (this.time) return dateTicks(a, b, about);
      const ticks = ticksOf(a, b, about);
      if (ticks.length) ticks[ticks.length - 1][1] += ` ${this.data.axis}`;
      return ticks;
    }
    yRange(panel) {
      let low = Infinity, high = -Infinity;
      for (const track of panel.tracks) {
        const from = below(track.u, this.view[0]), to = below(track.u, this.view[1] + 1e-9);
        for (let i = from; i < to; i += 1) {
          const y = track.y[i];
          if (y === null || !this.isShown(track, i)) continue;
          low = Math.min(low, y, track.low && track.low[i] !== null ? track.low[i] : y);
          high = Math.max(high, y, track.high && track.high[i] !== null ? track.high[i] : y);
        }
      }
      if (panel.ends && !this.isZoomed()) return panel.ends;
      if (!(high >= low)) return panel.ends || [0, 1];
      const air = (high - low) * 0.07 || Math.abs(high) * 0.05 || 1;
      return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
    }
    drawPanel(box, names, xTicks) {
      const { panel, top, floor } = box, [left, right] = this.edges, [low, high] = this.yRange(panel), parts = [];
      const y = (value) => floor - (value - low) / (high - low) * (floor - top);
      box.y = y;
      const area = { x: left, y: top - 4, width: right - left, height: floor - top + 5 };
      const inside = svgNode("svg", { ...area, viewBox: Object.values(area).join(" "), class: "inside" }); // cuts off what is beyond
      for (const [u] of xTicks) inside.append(svgNode("line", { x1: this.x(u), x2: this.x(u), y1: top, y2: floor, class: "grid" }));
      for (const [a, b, css, label] of panel.bands || []) {
        const from = Math.max(left, this.x(this.place(a))), to = Math.min(right, this.x(this.place(b)));
        if (to <= from) continue;
        inside.append(svgNode("rect", { x: from, y: top, width: to - from, height: floor - top, class: css }));
        if (label && to - from > label.length * 6.4 + 6 && from > left + 90) parts.push(svgNode("text", { x: (from + to) / 2, y: top - 5, "text-anchor": "middle", class: "tick" }, label));
      }
      const levels = [floor - top > 150 ? 5 : 3, 5, 8].map((about) => ticksOf(low, high, about));
      for (const [value, text] of levels.find((each) => each.length > 1) || levels[2]) {
        parts.push(svgNode("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }));
        parts.push(svgNode("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end", class: "tick" }, text));
      }
      parts.push(svgNode("line", { x1: left, x2: right, y1: floor, y2: floor, class: "axis" }));
      parts.push(svgNode("text", { x: 0, y: top - 9, class: "tick strong" }, panel.unit && panel.title !== panel.unit ? `${panel.title}, ${panel.unit}` : panel.title));
      if (panel.level) {
        const [a, value, b] = panel.level;
        if (a !== null && b !== null) inside.append(svgNode("rect", { x: left, y: y(b), width: right - left, height: Math.max(1, y(a) - y(b)), class: "interval" }));
        inside.append(svgNode("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "mean" }));
      }
      for (const [a, b, first, last] of panel.segments || []) inside.append(svgNode("path", { d: `M${this.x(this.place(a)).toFixed(1)} ${y(first).toFixed(1)}L${this.x(this.place(b)).toFixed(1)} ${y(last).toFixed(1)}`, class: "curve level" }));
      let free = left;
      for (const [at, label, words, layers] of panel.marks || []) {
        const px = this.x(this.place(at));
        if (px < left || px > right) continue;
        inside.append(svgNode("line", { x1: px, x2: px, y1: top, y2: label ? floor : top + 14, class: "axis" }));
        (layers || []).forEach((layer, i) => inside.append(svgNode("rect", { x: px - 3, y: top + 4 + 9 * i, width: 7, height: 7, class: `fill layer-${layer}`, "data-tip": words })));
        const last = px > right - label.length * 7.5;
        if (label && px > free) { parts.push(svgNode("text", { x: last ? px - 4 : px + 4, y: top + 10, "text-anchor": last ? "end" : "start", class: "tick strong" }, label)); free = px + label.length * 8; }
      }
      const drawn = new Map(); // one path a colour and kind: five thousand points are a handful of elements
      const pen = (slot, kind) => { const key = `${kind} ${slot}`; if (!drawn.has(key)) drawn.set(key, []); return drawn.get(key); };
      for (const track of panel.tracks) {
        const from = Math.max(0, below(track.u, this.view[0]) - 1), to = Math.min(track.u.length, below(track.u, this.view[1]) + 1);
        const room = (right - left) / Math.max(1, to - from), cap = Math.min(4, room * 0.4), dots = track.dots || room > 14;
        let down = false;
        for (let i = from; i < to; i += 1) {
          if (track.y[i] === null || !this.isShown(track, i)) { down = false; continue; }
          const slot = this.slot(names, this.shownName(track, i)), px = this.x(track.u[i]).toFixed(1), py = y(track.y[i]).toFixed(1);
          if (!track.dots) pen(slot, "curve").push(`${down ? "L" : "M"}${px} ${py}`);
          down = true;
          if (track.low && track.low[i] !== null && track.high[i] !== null) {
            const a = y(track.low[i]).toFixed(1), b = y(track.high[i]).toFixed(1);
            pen(slot, "bars").push(cap > 1 ? `M${px} ${a}V${b}m${-cap} 0h${2 * cap}M${px} ${a}m${-cap} 0h${2 * cap}` : `M${px} ${a}V${b}`);
          }
          if (dots) pen(slot, track.hollow.has(i) ? "dots hollow" : "dots").push(`M${px} ${py}h0`);
        }
      }
      const order = ["bars", "curve", "dots", "dots hollow"];
      const sorted = [...drawn].sort(([a], [b]) => order.indexOf(a.slice(0, a.lastIndexOf(" "))) - order.indexOf(b.slice(0, b.lastIndexOf(" "))));
      for (const [key, commands] of sorted) {
        inside.append(svgNode("path", { d: commands.join(""), class: key }));
        if (key.startsWith("dots hollow")) inside.append(svgNode("path", { d: commands.join(""), class: "dots heart" }));
      }
      parts.push(inside);
      return parts;
    }
    slot(names, name) { const at = names.indexOf(name); return at < SLOTS ? `slot-${at}` : "slot-rest"; }

    // --- what is around it ------------------------------------------------------------------------------------------
    makeTools() {
      const button = (text, label, act) => {
        const one = node("button", { type: "button", "aria-label": label, title: label }, text);
        one.addEventListener("click", act);
        this.tools.append(one);
        return one;
      };
      button("+", "Zoom in", () => this.zoom(0.5));
      button("−", "Zoom out", () => this.zoom(2));
      button("‹", "Move to the left", () => this.pan(-0.5));
      button("›", "Move to the right", () => this.pan(0.5));
      button("Whole", "Show the whole axis", () => this.reset());
      if (this.data.overlays.length) {
        const label = node("label", {}, "Colour by "), choice = node("select", { name: "overlay" });
        choice.append(node("option", { value: "" }, "precision"), ...this.data.overlays.map(([name]) => node("option", { value: name }, name)));
        choice.addEventListener("change", () => this.colour(choice.value));
        label.append(choice);
        this.tools.append(label);
      }
      if (this.time) {
        const label = node("label"), box = node("input", { type: "checkbox", name: "even", checked: this.even });
        box.addEventListener("change", () => { this.even = box.checked; this.cursor = null; this.space(); this.draw(); });
        label.append(box, " evenly spaced");
        this.tools.append(label);
      }
      if (this.figure.dataset.more) {
        const more = button("Other precisions, latency, first token", "Add the other precisions, and latency and first token below, from the documents of the results", async () => {
          more.disabled = true;
          more.textContent = "Reading …";
          try {
            const answer = await fetch(this.figure.dataset.more, { headers: { Accept: "application/json" } });
            if (!answer.ok) throw new Error(String(answer.status));
            this.data = await answer.json();
            this.cursor = null;
            this.prepare();
            this.draw();
            this.said.textContent = `${this.data.panels.length} panels: ${this.data.panels.map((panel) => panel.title).join(", ")}`;
            more.remove();
            this.plot.focus({ preventScroll: true });
          } catch (error) {
            more.disabled = false;
            more.textContent = "Not to be had now: try again";
          }
        });
      }
      const opens = this.opens() ? " Click a point, or press Enter on it, to open its result." : "";
      const words = `Drag to zoom, Shift and drag to move; with the keyboard: arrows go from point to point, + and − zoom, Shift with an arrow moves, 0 shows all.${opens}`;
      const hint = node("details", { class: "hint" });
      hint.append(node("summary", {}, "How to use it"), node("p", { id: `hint-${this.number}`, class: "quiet" }, words));
      this.tools.append(hint);
    }
    opens() { return this.figure.dataset.at && this.data.panels.some((panel) => panel.tracks.some((track) => track.ids.length)); }
    colour(overlay) {
      if (overlay && !this.overlay) this.tracksHidden = new Set(this.hidden);
      this.hidden = overlay ? new Set() : this.tracksHidden || new Set();
      this.overlay = overlay;
      this.draw();
    }
    drawLegend(names) {
      if (names.length < 2) { this.legend.replaceChildren(); return; }
      const had = document.activeElement && this.legend.contains(document.activeElement) ? document.activeElement.textContent : null;
      const items = names.slice(0, 40).map((name) => {
        const item = node("li"), one = node("button", { type: "button", "aria-pressed": String(!this.hidden.has(name)) });
        one.append(node("span", { class: `swatch ${this.slot(names, name)}` }), node("bdi", {}, name));
        one.addEventListener("click", () => { if (!this.hidden.delete(name)) this.hidden.add(name); this.cursor = null; this.draw(); });
        item.append(one);
        return item;
      });
      this.legend.replaceChildren(...items);
      if (had !== null) { const again = [...this.legend.querySelectorAll("button")].find((one) => one.textContent === had); if (again) again.focus(); }
    }

    // --- touching it ------------------------------------------------------------------------------------------------
    look(a, b) {
      const [low, high] = this.whole, least = (high - low) * 1e-6, span = Math.min(high - low, Math.max(b - a, least));
      const from = Math.min(Math.max(a, low), high - span);
      this.view = [from, from + span];
      if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.draw(); }); }
    }
    zoom(share, about) {
      const [a, b] = this.view, at = about === undefined ? (this.cursor ? this.cursor.track.u[this.cursor.index] : (a + b) / 2) : about;
      this.look(at - (at - a) * share, at + (b - at) * share);
    }
    pan(share) { const [a, b] = this.view, by = (b - a) * share; this.look(a + by, b + by); }
    reset() { this.look(...this.whole); }
    nearest(px, py) {
      let best = null, least = NEAR;
      const box = this.boxes.find((each) => py <= each.floor + 8) || this.boxes[this.boxes.length - 1];
      for (const track of box.panel.tracks) {
        const from = below(track.u, this.back(px - NEAR)), to = below(track.u, this.back(px + NEAR));
        for (let i = from; i < to; i += 1) {
          if (track.y[i] === null || !this.isShown(track, i)) continue;
          const far = Math.hypot(this.x(track.u[i]) - px, (box.y(track.y[i]) - py) * (track.dots ? 0.3 : 0.15));
          if (far < least) { least = far; best = { box, track, index: i }; }
        }
      }
      return best;
    }
    words({ box, track, index }) {
      const at = track.x[index], unit = box.panel.unit, lines = [this.time ? moment(at) : `${digits(at)} ${this.data.axis}`];
      const say = (one, i) => {
        const bounds = one.low && one.low[i] !== null && one.high[i] !== null ? ` [${digits(one.low[i])}, ${digits(one.high[i])}]` : "";
        const named = this.shownName(one, i) === one.name ? one.name : `${this.shownName(one, i)}, ${one.name}`;
        return `${named}: ${digits(one.y[i])}${bounds} ${unit}${one.hollow.has(i) ? ` (${one.word})` : ""}`;
      };
      lines.push(say(track, index));
      for (const other of box.panel.tracks) {
        const i = below(other.x, at);
        if (other !== track && other.x[i] === at && other.y[i] !== null && this.isShown(other, i) && lines.length < 8) lines.push(say(other, i));
      }
      if (track.ids[index]) lines.push(`result ${track.ids[index].slice(0, 12)}`);
      return lines;
    }
    mark(speak = false) {
      const { box, track, index } = this.cursor, px = this.x(track.u[index]);
      if (px < this.edges[0] - 1 || px > this.edges[1] + 1 || !this.isShown(track, index)) { this.leave(); return; }
      const py = Math.max(box.top, Math.min(box.floor, box.y(track.y[index])));
      this.cross.replaceChildren(
        svgNode("line", { x1: px, x2: px, y1: this.boxes[0].top, y2: this.boxes[this.boxes.length - 1].floor, class: "guide" }),
        svgNode("circle", { cx: px, cy: py, r: 5, class: `ring ${this.slot(this.names(), this.shownName(track, index))}` }),
      );
      const lines = this.words(this.cursor), area = this.plot.getBoundingClientRect();
      tip.textContent = lines.join("\n");
      tip.hidden = false;
      const size = tip.getBoundingClientRect(), x = area.left + px, y = area.top + py;
      tip.style.left = `${Math.max(8, x + 14 + size.width > innerWidth - 8 ? x - 14 - size.width : x + 14)}px`;
      tip.style.top = `${y - size.height - 10 > 8 ? y - size.height - 10 : y + 16}px`;
      this.plot.classList.toggle("opens", Boolean(this.figure.dataset.at && track.ids[index]));
      if (speak) this.said.textContent = lines.join("; ");
    }
    leave() { this.cursor = null; this.cross.replaceChildren(); tip.hidden = true; this.plot.classList.remove("opens"); }
    open(away) {
      const id = this.cursor && this.cursor.track.ids[this.cursor.index];
      if (!id || !this.figure.dataset.at) return;
      if (away) window.open(this.figure.dataset.at + id, "_blank", "noopener"); else location.assign(this.figure.dataset.at + id);
    }
    move(by) {
      if (!this.cursor) {
        const box = this.boxes.find((each) => each.panel.tracks.some((track) => track.y.some((y, i) => y !== null && this.isShown(track, i))));
        if (!box) return;
        const track = box.panel.tracks.find((each) => each.y.some((y, i) => y !== null && this.isShown(each, i)));
        this.cursor = { box, track, index: by > 0 ? Math.max(-1, below(track.u, this.view[0]) - 1) : below(track.u, this.view[1]) };
      }
      const { track } = this.cursor;
      let { index } = this.cursor;
      do index += by; while (index >= 0 && index < track.y.length && (track.y[index] === null || !this.isShown(track, index)));
      if (index < 0 || index >= track.y.length) { if (track.y[this.cursor.index] === undefined) this.cursor = null; return; }
      this.cursor.index = index;
      this.follow();
    }
    follow() { // a point outside of what is shown is brought inside
      const u = this.cursor.track.u[this.cursor.index], [a, b] = this.view;
      this.cursor.box = this.boxes.find((each) => each.panel === this.cursor.box.panel);
      if (u < a || u > b) { const half = (b - a) / 2; this.view = [u - half, u + half]; this.look(u - half, u + half); this.draw(); }
      this.mark(true);
    }
    change(by) { // to the same moment in another track
      if (!this.cursor) { this.move(1); return; }
      const all = this.boxes.flatMap((box) => box.panel.tracks.map((track) => ({ box, track })));
      const here = all.findIndex((one) => one.track === this.cursor.track), at = this.cursor.track.x[this.cursor.index];
      for (let next = here + by; next >= 0 && next < all.length; next += by) {
        const { box, track } = all[next], index = Math.min(track.x.length - 1, below(track.x, at));
        if (index >= 0 && track.y[index] !== null && this.isShown(track, index)) { this.cursor = { box, track, index }; this.follow(); return; }
      }
    }
    listen() {
      const place = (event) => { const area = this.plot.getBoundingClientRect(); return [event.clientX - area.left, event.clientY - area.top]; };
      this.plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        const [px, py] = place(event);
        this.held = { px, py, view: [...this.view], moves: event.shiftKey || event.pointerType === "touch", near: this.cursor };
        this.plot.setPointerCapture(event.pointerId);
      });
      this.plot.addEventListener("pointermove", (event) => {
        const [px, py] = place(event), held = this.held;
        if (held && Math.abs(px - held.px) > 6) {
          held.dragged = true;
          this.leave();
          if (held.moves) {
            const by = (held.px - px) / (this.edges[1] - this.edges[0]) * (held.view[1] - held.view[0]);
            this.look(held.view[0] + by, held.view[1] + by);
          } else {
            const [a, b] = [held.px, px].map((each) => Math.min(this.edges[1], Math.max(this.edges[0], each))).sort((one, other) => one - other);
            fill(this.brush, { x: a, width: b - a, visibility: "visible" });
          }
          return;
        }
        if (held) return;
        this.cursor = this.nearest(px, py);
        if (this.cursor) this.mark(); else this.leave();
      });
      this.plot.addEventListener("pointerup", (event) => {
        const [px, py] = place(event), held = this.held;
        this.held = null;
        this.brush.setAttribute("visibility", "hidden");
        if (!held) return;
        if (held.dragged) {
          const [a, b] = [this.back(held.px), this.back(px)].sort((one, other) => one - other);
          if (!held.moves) this.look(a, b);
          return;
        }
        this.cursor = this.nearest(px, py);
        if (!this.cursor) { this.leave(); return; }
        const again = held.near && held.near.track === this.cursor.track && held.near.index === this.cursor.index;
        this.mark();
        if (event.pointerType !== "touch" || again) this.open(event.ctrlKey || event.metaKey);
      });
      this.plot.addEventListener("pointercancel", () => { this.held = null; this.brush.setAttribute("visibility", "hidden"); });
      this.plot.addEventListener("pointerleave", () => { if (!this.held && document.activeElement !== this.plot) this.leave(); });
      this.plot.addEventListener("blur", () => this.leave());
      this.plot.addEventListener("dblclick", () => this.reset());
      this.plot.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // a wheel alone scrolls the page
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.back(place(event)[0]));
      }, { passive: false });
      const keys = {
        ArrowLeft: (event) => (event.shiftKey ? this.pan(-0.25) : this.move(-1)),
        ArrowRight: (event) => (event.shiftKey ? this.pan(0.25) : this.move(1)),
        ArrowUp: () => this.change(-1), ArrowDown: () => this.change(1),
        Home: () => { this.cursor = null; this.view = [...this.whole]; this.draw(); this.move(1); },
        End: () => { this.cursor = null; this.view = [...this.whole]; this.draw(); this.move(-1); },
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "−": () => this.zoom(2),
        "0": () => this.reset(), Escape: () => this.leave(), Enter: (event) => this.open(event.ctrlKey || event.metaKey),
      };
      this.plot.addEventListener("keydown", (event) => {
        const act = keys[event.key];
        if (!act || event.altKey) return;
        event.preventDefault();
        act(event);
      });
    }
  }
  for (const figure of document.querySelectorAll("figure[data-chart]")) new TouchedPlot(figure);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
