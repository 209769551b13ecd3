// The page is complete without this: it adds sorting, and hover and arrow keys over the marks of a chart.
"use strict";
(() => {
  const scale = { us: 1e-6, ms: 1e-3, s: 1, "%": 1, "": 1 };
  // "912.1 ms" is a number of seconds, "-" and words are none.
  const value = (text) => {
    const found = /^([+-]?[\d,]*\.?\d+)\s*([^\s\d]*)/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) * (scale[found[2]] ?? 1) : null;
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x !== null ? -1 : 1; // what is unknown goes last
    return a < b ? -1 : a > b ? 1 : 0;
  };
  for (const table of document.querySelectorAll("table.sort")) {
    // A table of one body is sorted by row; one of several by body: an objective is its row and its reason.
    const several = table.tBodies.length > 1, heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const outer = several ? table : table.tBodies[0];
        const cell = (part) => (several ? part.rows[0] : part).cells[column].textContent.trim();
        const known = (part) => value(cell(part)) !== null;
        outer.append(...[...(several ? table.tBodies : outer.rows)].sort((p, q) =>
          down && known(p) === known(q) ? compare(cell(q), cell(p)) : compare(cell(p), cell(q))));
      });
    });
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const show = (mark, drawing) => {
    tip.textContent = mark.dataset.said;
    drawing.append(tip);
    tip.hidden = false;
    const box = mark.getBoundingClientRect(), outer = drawing.getBoundingClientRect();
    const left = box.left + box.width / 2 - outer.left + 8;
    tip.style.left = `${Math.max(0, Math.min(left, outer.width - tip.offsetWidth))}px`;
    const above = box.top - outer.top - tip.offsetHeight - 6;
    tip.style.top = `${above < 0 ? box.bottom - outer.top + 6 : above}px`;
  };
  for (const drawing of document.querySelectorAll(".drawing")) {
    const marks = [...drawing.querySelectorAll("svg title")].map((title) => {
      const mark = title.parentNode;
      mark.dataset.said = title.textContent;
      title.remove(); // else the browser shows its own beside ours
      return mark;
    });
    if (!marks.length) continue;
    const said = document.createElement("p");
    said.className = "said";
    said.setAttribute("aria-live", "polite");
    drawing.append(said);
    let at = -1;
    const leave = () => {
      tip.hidden = true;
      if (at >= 0) marks[at].classList.remove("here");
    };
    drawing.addEventListener("pointerover", (event) => {
      const mark = event.target.closest("[data-said]");
      if (mark) show(mark, drawing);
    });
    drawing.addEventListener("pointerout", () => { tip.hidden = true; });
    drawing.addEventListener("blur", () => { leave(); said.textContent = ""; });
    drawing.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 25, PageUp: -25 }[event.key];
      const end = { Home: 0, End: marks.length - 1 }[event.key];
      if (event.key === "Escape") return leave();
      if (step === undefined && end === undefined) return;
      event.preventDefault();
      leave();
      at = end ?? Math.max(0, Math.min(marks.length - 1, at + step));
      marks[at].classList.add("here");
      said.textContent = marks[at].dataset.said;
      show(marks[at], drawing);
    });
  }
})();
