(() => {
  // Tables that can be sorted and narrowed, and that say when there is more beside what is seen. Without this script they are as they came.
  const SORTS_FROM = 3, FILTERS_FROM = 8;
  const node = (name, attributes = {}, text) => {
    const one = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const words = (cell) => (cell ? cell.textContent.replace(/\s+/g, " ").trim() : "");
  // "1 234.5 [1 200, 1 300] tokens/s": its number and its unit; a date is neither.
  const figure = (text) => {
    const match = /^([+−-]?)(\d[\d\u202f]*(?:\.\d+)?)(?![\d-]*-\d)(.*)$/.exec(text);
    if (!match || /^:\d/.test(match[3])) return null;
    const value = Number(match[2].replace(/\u202f/g, ""));
    return { value: match[1] && match[1] !== "+" ? -value : value, unit: match[3].replace(/\[[^\]]*\]/g, "").replace(/\s+/g, " ").trim() };
  };
  // Rows without a name of their own belong to the one above them and stay with it.
  const groupsOf = (body) => {
    const groups = [];
    for (const row of body.rows) {
      if (groups.length && row.cells[0] && !words(row.cells[0]) && !row.cells[0].querySelector("input, svg")) groups[groups.length - 1].push(row);
      else groups.push([row]);
    }
    return groups;
  };

  class SortedTable {
    constructor(box, table) {
      this.box = box;
      this.table = table;
      this.body = table.tBodies[0];
      this.groups = groupsOf(this.body);
      this.shown = this.groups;
      if (this.groups.length >= SORTS_FROM && table.tHead) this.makeHeads();
      if (this.groups.length >= FILTERS_FROM) this.makeFilter();
    }
    makeHeads() {
      this.heads = [...table_heads(this.table)];
      this.heads.forEach((head, column) => {
        const text = head.textContent.trim();
        if (!text || !this.groups.some(([row]) => words(row.cells[column]))) return;
        const button = node("button", { type: "button", class: "sort" });
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => this.sort(column));
      });
    }
    sort(column) {
      const now = this.heads[column].getAttribute("aria-sort"), next = now === null ? "ascending" : now === "ascending" ? "descending" : null;
      for (const head of this.heads) head.removeAttribute("aria-sort");
      if (next) this.heads[column].setAttribute("aria-sort", next);
      let ordered = this.groups;
      if (next) {
        const texts = this.groups.map(([row]) => words(row.cells[column])), known = texts.filter((text) => text && text !== "–" && text !== "—");
        const figures = texts.map(figure), first = figures.find((each) => each);
        const numeric = first && texts.every((text, i) => !known.includes(text) || (figures[i] && figures[i].unit === first.unit));
        const way = next === "ascending" ? 1 : -1;
        const compared = (a, b) => {
          if (numeric) return figures[a] && figures[b] ? way * (figures[a].value - figures[b].value) : Number(!figures[a]) - Number(!figures[b]);
          if (!texts[a] || !texts[b]) return Number(!texts[a]) - Number(!texts[b]); // what is not there stands last, whichever way
          return way * texts[a].localeCompare(texts[b], "en", { numeric: true });
        };
        ordered = texts.map((_, i) => i).sort((a, b) => compared(a, b) || a - b).map((i) => this.groups[i]);
      }
      this.body.append(...ordered.flat());
    }
    makeFilter() {
      const line = node("div", { class: "narrowing" }), label = node("label"), field = node("input", { type: "search", "aria-label": `Filter: ${this.table.caption.textContent}`, placeholder: `Filter ${this.groups.length} rows` });
      this.count = node("span", { role: "status", class: "quiet" });
      label.append(field);
      line.append(label, this.count);
      this.box.before(line);
      this.field = field;
      field.addEventListener("input", () => this.filter(field.value));
    }
    filter(text) {
      const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const group of this.groups) {
        const all = group.map((row) => row.textContent.toLowerCase()).join(" "), fits = wanted.every((word) => all.includes(word));
        for (const row of group) row.hidden = !fits;
        left += fits;
      }
      this.count.textContent = wanted.length ? `${left} of ${this.groups.length} rows` : "";
    }
  }
  const table_heads = (table) => table.tHead.rows[0].cells;

  const watch = (box) => {
    const hint = node("p", { class: "sideways", "aria-hidden": "true", hidden: "" }, "Scroll sideways for more →");
    box.before(hint);
    const look = () => {
      const beyond = box.scrollWidth - box.clientWidth;
      hint.hidden = beyond <= 1;
      box.classList.toggle("more-right", beyond - box.scrollLeft > 1);
      box.classList.toggle("more-left", box.scrollLeft > 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look); // the table, too: it may grow or shrink in a box that stays
    observer.observe(box);
    observer.observe(box.querySelector("table"));
    look();
  };
  const tables = [];
  for (const box of document.querySelectorAll(".scroll")) {
    const table = box.querySelector("table");
    if (!table || !table.tBodies.length) continue;
    tables.push(new SortedTable(box, table));
    watch(box);
  }

  // A view that can be saved: its address says how the first table is sorted and narrowed, and which results are ticked.
  const KEY = "lynxbench-selected", save = document.querySelector("a.save-view"), [first] = tables, given = new URLSearchParams(location.search);
  const headed = (head) => head.textContent.trim();
  if (save) {
    const column = first && first.heads ? first.heads.findIndex((head) => headed(head) === given.get("sort") && head.querySelector("button.sort")) : -1;
    if (column >= 0) { first.sort(column); if (given.get("way") === "descending") first.sort(column); }
    if (first && first.field && given.get("words")) { first.field.value = given.get("words"); first.filter(first.field.value); }
    if (given.has("r")) sessionStorage.setItem(KEY, JSON.stringify(given.getAll("r")));
    save.addEventListener("click", () => {
      const to = new URL(save.href), sorted = first && first.heads && first.heads.find((head) => head.hasAttribute("aria-sort"));
      for (const name of ["sort", "way", "words", "r"]) to.searchParams.delete(name);
      if (sorted) { to.searchParams.set("sort", headed(sorted)); to.searchParams.set("way", sorted.getAttribute("aria-sort")); }
      if (first && first.field && first.field.value.trim()) to.searchParams.set("words", first.field.value.trim());
      for (const box of document.querySelectorAll("input[name=r]:checked")) to.searchParams.append("r", box.value);
      save.href = to.href;
    });
  }

  // Results that are ticked, on whatever page, until they are compared.
  const form = document.getElementById("compare-selected");
  if (form) {
    const MOST = Number(form.dataset.most);
    const boxes = [...document.querySelectorAll("input[name=r][form=compare-selected]")];
    const read = () => { try { return JSON.parse(sessionStorage.getItem(KEY)) || []; } catch { return []; } };
    const elsewhere = node("span");
    const count = form.querySelector("[data-count]"), button = form.querySelector("button"), clear = node("button", { type: "button" }, "Clear");
    form.append(clear, elsewhere);
    const show = (chosen) => {
      sessionStorage.setItem(KEY, JSON.stringify(chosen));
      const here = new Set(boxes.map((box) => box.value));
      for (const box of boxes) box.checked = chosen.includes(box.value);
      elsewhere.replaceChildren(...chosen.filter((id) => !here.has(id)).map((id) => { const one = node("input", { type: "hidden", name: "r" }); one.value = id; return one; }));
      count.textContent = chosen.length ? `${chosen.length} selected${chosen.length > MOST ? `, at most ${MOST}` : ""}` : "";
      button.disabled = chosen.length < 2 || chosen.length > MOST;
      clear.hidden = !chosen.length;
      form.classList.toggle("some", chosen.length > 0);
    };
    for (const box of boxes) box.addEventListener("change", () => {
      const others = read().filter((id) => id !== box.value);
      show(box.checked ? [...others, box.value] : others);
    });
    clear.addEventListener("click", () => show([]));
    window.addEventListener("pageshow", () => show(read()));
    show(read());
  }

  // Words of the glossary: a quick tip, and for the keyboard the first place of each word.
  const known = new Set();
  for (const term of document.querySelectorAll(".term[title]")) {
    term.dataset.tip = term.title;
    term.setAttribute("aria-description", term.title);
    term.removeAttribute("title");
    if (!term.closest("button, a, summary") && !known.has(term.textContent)) term.tabIndex = 0;
    known.add(term.textContent);
  }

  // A slash goes to the search, as people are used to.
  const search = document.querySelector(".seek input");
  if (search) document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
})();
