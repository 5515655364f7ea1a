// Contrast after WCAG 2.2 (1.4.3), names of controls (4.1.2), headings (1.3.1), language, landmarks, unique ids.
() => {
  const problems = [];
  const shown = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
  const parse = (text) => { const m = text.match(/[0-9.]+/g); return m ? m.map(Number) : [0, 0, 0, 0]; };
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.length < 4 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, one = node.parentElement;
    if (!node.textContent.trim() || !one || !shown(one) || one.closest("svg, script, style, noscript, option")) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const need = size >= 24 || (size >= 18.66 && bold) ? 3 : 4.5;
    const a = light(parse(style.color)), b = light(ground(one));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < need) problems.push(`contrast ${ratio.toFixed(2)}: ${node.textContent.trim().slice(0, 40)}`);
  }
  const name = (one) => (one.getAttribute("aria-label") || (one.labels && [...one.labels].map((l) => l.textContent).join(" "))
    || one.getAttribute("title") || one.textContent || "").trim();
  for (const one of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, [role=img]"))
    if (shown(one) && !name(one)) problems.push(`no name: ${one.outerHTML.slice(0, 80)}`);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown).map((one) => Number(one.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) problems.push(`h1: ${levels.filter((l) => l === 1).length}`);
  levels.reduce((before, level) => { if (level > before + 1) problems.push(`heading h${before} then h${level}`); return level; }, 0);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) problems.push(`id twice: ${id}`);
  if (document.documentElement.lang !== "en") problems.push("no language");
  if (document.querySelectorAll("main").length !== 1) problems.push("main");
  for (const one of document.querySelectorAll("table")) if (!one.caption) problems.push("table without caption");
  for (const one of document.querySelectorAll("nav")) if (!one.getAttribute("aria-label")) problems.push("nav without name");
  const small = [...document.querySelectorAll("svg.plot text")].filter((one) => shown(one) && one.textContent.trim())
    .map((one) => one.getBoundingClientRect().height).filter((height) => height > 0 && height < 8);
  if (small.length) problems.push(`${small.length} words of a plot are ${Math.min(...small).toFixed(1)} px high`);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) problems.push(`scrolls sideways by ${wide} px`);
  return [...new Set(problems)];
}
