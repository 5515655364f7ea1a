"use strict";
(() => {
  // Quicker tips than the browser's own; without this script the native ones remain.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  tip.hidden = true;
  document.body.append(tip);
  for (const title of document.querySelectorAll("svg :not(svg) > title")) {
    title.parentElement.dataset.tip = title.textContent;
    title.remove();
  }
  for (const title of document.querySelectorAll("svg > title")) title.remove();
  const show = (event) => {
    const target = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 8 ? above : event.clientY + 18) + "px";
  };
  document.addEventListener("focusin", (event) => {
    const one = event.target, target = one.matches("[data-tip]") ? one : one.querySelector(".term[data-tip]");
    if (!target || !one.matches(":focus-visible")) { tip.hidden = true; return; }
    const box = target.getBoundingClientRect();
    show({ target, clientX: box.left - 14, clientY: box.top });
  });
  document.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("pointermove", show, { passive: true });
  document.addEventListener("pointerdown", show, { passive: true });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const layers = document.querySelectorAll("#executor details");
  if (layers.length) {
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "Open all layers";
    all.addEventListener("click", () => {
      const open = ![...layers].every((one) => one.open);
      for (const one of layers) one.open = open;
      all.textContent = open ? "Close all layers" : "Open all layers";
    });
    document.querySelector("#executor .lead").append(" ", all);
  }
  const before = [];
  window.addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("#executor details:not([open])")) { one.open = true; before.push(one); }
  });
  window.addEventListener("afterprint", () => { for (const one of before.splice(0)) one.open = false; });
})();
