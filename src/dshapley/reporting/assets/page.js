"use strict";
(function () {
  const tip = document.getElementById("tip");
  // The mark that the arrow keys are at; it keeps its words while the page scrolls.
  let held = null;

  function say(mark, x, y) {
    document.querySelectorAll(".mark.shown").forEach((m) => m.classList.remove("shown"));
    const words = mark ? mark.dataset.tip : "";
    // Screen readers repeat whatever is set.
    if (tip.textContent !== words) tip.textContent = words;
    if (!mark) {
      held = null;
      return;
    }
    mark.classList.add("shown");
    const size = tip.getBoundingClientRect();
    const below = y + 16 + size.height <= innerHeight;
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - size.width - 4)) + "px";
    tip.style.top = (below ? y + 16 : Math.max(4, y - size.height - 12)) + "px";
  }

  function sayAt(mark) {
    const b = mark.getBoundingClientRect();
    say(mark, (b.left + b.right) / 2, (b.top + b.bottom) / 2);
    held = mark;
  }

  // The mark under the pointer, or the nearest one close to it: lines are thin.
  function nearest(marks, x, y) {
    let found = null, least = 14;
    for (const mark of marks) {
      const b = mark.getBoundingClientRect();
      const far = Math.hypot(Math.max(b.left - x, 0, x - b.right), Math.max(b.top - y, 0, y - b.bottom));
      // Inside large marks, such as a line across the picture, small ones come first.
      const rank = far + Math.max(b.width, b.height) / 1e4;
      if (rank < least) {
        least = rank;
        found = mark;
      }
    }
    return found;
  }

  for (const picture of document.querySelectorAll(".picture")) {
    const marks = Array.from(picture.querySelectorAll(".mark"));
    if (!marks.length) continue;
    // A screen reader passes the arrow keys on to an application only.
    picture.setAttribute("role", "application");
    picture.setAttribute("aria-roledescription", "picture, arrow keys step through its marks");
    const point = (e) => say(nearest(marks, e.clientX, e.clientY), e.clientX, e.clientY);
    picture.addEventListener("pointermove", point);
    picture.addEventListener("pointerdown", point);
    // A finger leaves when it is lifted; what it pointed at stays until the next touch.
    picture.addEventListener("pointerleave", (e) => e.pointerType === "touch" || say(null));
    picture.addEventListener("blur", () => say(null));
    let at = -1;
    picture.addEventListener("keydown", (e) => {
      const last = marks.length - 1;
      const next = {
        ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last,
      }[e.key];
      if (next === undefined || e.ctrlKey || e.altKey || e.metaKey) return;
      e.preventDefault();
      at = next < 0 ? last : next > last ? 0 : next;
      marks[at].scrollIntoView({ behavior: "instant", block: "nearest", inline: "nearest" });
      sayAt(marks[at]);
    });
  }
  document.addEventListener("keydown", (e) => e.key === "Escape" && say(null));
  document.addEventListener("pointerdown", (e) => e.target.closest(".picture") || say(null));
  document.addEventListener("scroll", () => (held ? sayAt(held) : say(null)), { capture: true, passive: true });

  const words = new Intl.Collator(undefined, { numeric: true });

  // Numbers in their order, then words in theirs; empty cells stay last in both directions.
  function sorted(rows, column, up) {
    const keyed = rows.map((row) => {
      const cell = row.cells[column];
      const text = cell.textContent;
      return { row, text, number: "key" in cell.dataset ? Number(cell.dataset.key) : null };
    });
    const kind = (a) => (a.number !== null ? 0 : a.text ? 1 : 2);
    keyed.sort((a, b) => {
      const other = kind(a) - kind(b);
      if (other) return Math.max(kind(a), kind(b)) === 2 || up ? other : -other;
      const order = a.number !== null ? a.number - b.number : words.compare(a.text, b.text);
      return up ? order : -order;
    });
    return keyed.map((a) => a.row);
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
        body.append(...sorted(Array.from(body.rows), column, up));
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
    const texts = Array.from(body.rows, (row) => [
      row, Array.from(row.cells, (cell) => cell.textContent).join("\n").toLowerCase(),
    ]);
    const all = texts.length.toLocaleString("en") + " rows";
    count.textContent = all;
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const [row, text] of texts) {
        row.hidden = !wanted.every((word) => text.includes(word));
        n += row.hidden ? 0 : 1;
      }
      count.textContent = wanted.length ? n.toLocaleString("en") + " of " + all : all;
    });
  }
})();
