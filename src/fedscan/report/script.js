"use strict";
// Sorting: numbers by their value, text by its letters; cells without a value stay last.
function sort(header) {
  const table = header.closest("table"), body = table.tBodies[0];
  const column = header.cellIndex, falling = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentNode.cells) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const key = (row) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
  };
  const empty = (value) => value === "" || Number.isNaN(value);
  const compare = (a, b) => {
    if (empty(a) || empty(b)) return empty(a) - empty(b);
    const both = typeof a === "number" && typeof b === "number";
    const order = both ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return falling ? -order : order;
  };
  const rows = Array.from(body.rows, (row) => [key(row), row]);
  rows.sort((a, b) => compare(a[0], b[0]));
  body.append(...rows.map((pair) => pair[1]));
}
for (const button of document.querySelectorAll("table.sortable th button"))
  button.addEventListener("click", () => sort(button.parentNode));
for (const input of document.querySelectorAll(".filter input"))
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const table = input.parentNode.nextElementSibling.querySelector("table");
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
