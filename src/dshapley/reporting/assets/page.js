"use strict";
(function () {
  const box = document.getElementById("tip");

  function say(mark, x, y) {
    document.querySelectorAll(".mark.shown").forEach((m) => m.classList.remove("shown"));
    if (!mark) {
      box.hidden = true;
      return;
    }
    mark.classList.add("shown");
    box.textContent = mark.dataset.tip;
    box.hidden = false;
    const size = box.getBoundingClientRect();
    box.style.left = Math.max(4, Math.min(x + 12, innerWidth - size.width - 4)) + "px";
    box.style.top = (y + 16 + size.height > innerHeight ? Math.max(4, y - size.height - 12) : y + 16) + "px";
  }

  // The mark under the pointer, or the nearest one close to it: lines are thin.
  function nearest(picture, x, y) {
    let found = null, least = 14;
    for (const mark of picture.querySelectorAll(".mark")) {
      const b = mark.getBoundingClientRect();
      const far = Math.hypot(Math.max(b.left - x, 0, x - b.right), Math.max(b.top - y, 0, y - b.bottom));
      // Inside large marks, such as a line across the picture, small ones come first.
      const rank = far + Math.min(b.width * b.height, 1e6) / 1e6;
      if (rank < least) {
        least = rank;
        found = mark;
      }
    }
    return found;
  }

  for (const picture of document.querySelectorAll(".picture")) {
    picture.addEventListener("pointermove", (e) => say(nearest(picture, e.clientX, e.clientY), e.clientX, e.clientY));
    picture.addEventListener("pointerleave", () => say(null));
    picture.addEventListener("blur", () => say(null));
    let at = -1;
    picture.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (e.key === "Escape") say(null);
      if (!step) return;
      const marks = picture.querySelectorAll(".mark");
      if (!marks.length) return;
      e.preventDefault();
      at = (at + step + marks.length) % marks.length;
      const b = marks[at].getBoundingClientRect();
      say(marks[at], (b.left + b.right) / 2, (b.top + b.bottom) / 2);
    });
  }

  function compare(a, b) {
    const x = a.dataset.key, y = b.dataset.key;
    if (x !== undefined && y !== undefined) return Number(x) - Number(y);
    if (x !== undefined) return -1;
    if (y !== undefined) return 1;
    return a.textContent.localeCompare(b.textContent);
  }

  for (const holder of document.querySelectorAll(".table")) {
    const table = holder.querySelector("table");
    const body = table.tBodies[0];
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = Array.from(body.rows);
        rows.sort((a, b) => (up ? 1 : -1) * compare(a.cells[column], b.cells[column]));
        body.append(...rows);
      });
    });
    if (holder.dataset.searchable !== "yes") continue;
    const line = document.createElement("div");
    line.className = "search";
    const label = document.createElement("label");
    label.textContent = "Search ";
    const input = document.createElement("input");
    input.type = "search";
    label.append(input);
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    line.append(label, count);
    holder.insertBefore(line, holder.querySelector(".scroll"));
    const texts = Array.from(body.rows, (row) => [row, row.textContent.toLowerCase()]);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const [row, text] of texts) {
        row.hidden = !words.every((word) => text.includes(word));
        n += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? n + " of " + texts.length + " rows" : "";
    });
  }
})();
