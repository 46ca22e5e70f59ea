"use strict";
// Headings sort their table: ascending, descending, as it was. What is not a number, or absent, comes last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows];
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const isAbsent = (row, column) => row.cells[column].classList.contains("absent");
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b :
    typeof a === "number" ? -1 :
    typeof b === "number" ? 1 :
    a.localeCompare(b, "en", { numeric: true });
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const sort = next[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", sort);
      const sorted = sort === "none" ? rows : [...rows].sort((a, b) =>
        isAbsent(a, column) - isAbsent(b, column) ||
        order(value(a, column), value(b, column)) * (sort === "descending" ? -1 : 1));
      body.append(...sorted);
    });
  });
}
// What is folded is printed, too.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
