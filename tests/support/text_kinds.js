// Marks one text of each kind that is not known yet (data-kind), and says which kinds those are.
// A kind is all that contrast rests on, of the element and of everything around it; the scheme is in the colours.
(known) => {
  const NAMES = ["color", "fill", "backgroundColor", "backgroundImage", "opacity", "filter", "backdropFilter", "mixBlendMode",
    "textShadow", "fontSize", "fontWeight", "visibility", "clipPath", "transform", "position", "display"];
  const style = (one, part) => { const own = getComputedStyle(one, part); return NAMES.map((name) => own[name]).join(";"); };
  const hash = (text) => {
    let a = 0xdeadbeef, b = 0x41c6ce57;
    for (let i = 0; i < text.length; i++) {
      a = Math.imul(a ^ text.charCodeAt(i), 2654435761);
      b = Math.imul(b ^ text.charCodeAt(i), 1597334677);
    }
    return (a >>> 0).toString(36) + (b >>> 0).toString(36);
  };
  const kinds = new Map();
  const kind = (one) => {
    if (!one) return "";
    if (!kinds.has(one)) {
      const parts = ["::before", "::after"].filter((part) => !["none", "normal"].includes(getComputedStyle(one, part).content));
      kinds.set(one, hash([style(one), ...parts.map((part) => style(one, part)), one.disabled ? "off" : "", kind(one.parentElement)].join("|")));
    }
    return kinds.get(one);
  };
  const shown = (one) => one.getClientRects().length > 0;
  const floating = [...document.body.querySelectorAll("*")].filter((one) =>
    ["absolute", "fixed", "sticky"].includes(getComputedStyle(one).position) && shown(one));
  const boxes = floating.map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.width > 2 && box.height > 2);
  const covered = (one) => {
    const own = one.getBoundingClientRect();
    return boxes.some(([other, box]) => !other.contains(one) && !one.contains(other)
      && box.left < own.right && box.right > own.left && box.top < own.bottom && box.bottom > own.top);
  };
  for (const one of document.querySelectorAll("[data-kind]")) delete one.dataset.kind;
  const seen = new Set(known), fresh = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !one || !shown(one) || one.dataset.kind !== undefined) continue;
    const over = covered(one), name = kind(one);
    if (!over && seen.has(name)) continue;
    if (!seen.has(name)) fresh.push(name);
    else fresh.push(`${name} covered`);
    seen.add(name);
    one.dataset.kind = "";
  }
  return fresh;
}
