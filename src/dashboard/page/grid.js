// A table of any length of which only the rows on the screen exist: role "grid", moved through by keys.
import { make, setAttribute } from "./dom.js";

const BEYOND = 8; // rows kept above and below the screen

/**
 * @typedef {{name: string, title: string, className?: string, head?: () => Node}} Column
 */
export class Grid {
  /**
   * @param {{label: string, className: string, rowHeight: number, columns: Column[],
   *          draw: (cells: HTMLElement[], item: any, row: HTMLElement) => void, open: (item: any) => void,
   *          isOpen: (item: any) => boolean}} options
   */
  constructor(options) {
    this.options = options;
    this.items = [];
    this.rows = new Map(); // index to element
    this.spare = [];
    this.active = { row: 0, column: 0 };
    this.body = make("div", { class: "grid-body", role: "rowgroup" });
    this.head = make("div", { class: "grid-head", role: "row", "aria-rowindex": 1 },
      ...options.columns.map((column, index) => make("div", {
        class: `cell head ${column.className ?? ""}`, role: "columnheader", "aria-colindex": index + 1,
        title: column.title, "data-column": column.name,
      }, column.head ? column.head() : make("span", { text: column.title }))));
    this.element = make("div", {
      class: `grid ${options.className}`, role: "grid", "aria-label": options.label,
      "aria-colcount": options.columns.length,
    }, make("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.element.style.setProperty("--row", `${options.rowHeight}px`);
    this.element.addEventListener("scroll", () => this.later(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event));
    this.sizes = new ResizeObserver(() => this.later());
    this.sizes.observe(this.element);
  }

  /** Items in their order; equal items may be other objects each time. */
  show(items) {
    this.items = items;
    this.body.style.height = `${items.length * this.options.rowHeight}px`;
    setAttribute(this.element, "aria-rowcount", String(items.length + 1));
    this.active.row = Math.max(0, Math.min(this.active.row, items.length - 1));
    this.draw();
  }

  /** Draws at the next frame, however often it is asked. */
  later() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw(false);
    });
  }

  visible() {
    const { rowHeight } = this.options;
    const height = Math.max(0, this.element.clientHeight - this.head.offsetHeight);
    const first = Math.floor(this.element.scrollTop / rowHeight);
    return { first, last: Math.min(this.items.length - 1, first + Math.ceil(height / rowHeight)) };
  }

  /** @param {boolean} all also the rows that are there already: what they show, or which is active, has changed */
  draw(all = true) {
    const { first, last } = this.visible();
    const from = Math.max(0, first - BEYOND);
    const to = Math.min(this.items.length - 1, last + BEYOND);
    // The row that has the focus stays, wherever it is.
    const focused = this.body.contains(document.activeElement) ? this.active.row : -1;
    for (const [index, row] of this.rows) {
      if ((index >= from && index <= to) || (index === focused && index < this.items.length)) continue;
      this.rows.delete(index);
      row.hidden = true;
      this.spare.push(row);
    }
    for (let index = from; index <= to; index += 1) if (all || !this.rows.has(index)) this.drawRow(index);
    if (all && focused >= 0 && focused < this.items.length) this.drawRow(focused);
  }

  drawRow(index) {
    let row = this.rows.get(index);
    if (!row) {
      row = this.spare.pop() ?? this.makeRow();
      row.hidden = false;
      row.style.transform = `translateY(${index * this.options.rowHeight}px)`;
      setAttribute(row, "aria-rowindex", String(index + 2));
      row.dataset.index = index;
      this.rows.set(index, row);
    }
    const item = this.items[index];
    this.options.draw(row.cells, item, row);
    setAttribute(row, "aria-selected", String(this.options.isOpen(item)));
    for (let column = 0; column < row.cells.length; column += 1) {
      const here = index === this.active.row && column === this.active.column;
      setAttribute(row.cells[column], "tabindex", here ? "0" : "-1");
    }
  }

  makeRow() {
    const cells = this.options.columns.map((column, index) => make("div", {
      class: `cell ${column.className ?? ""}`, role: "gridcell", "aria-colindex": index + 1, tabindex: -1,
    }));
    const row = make("div", { class: "grid-row", role: "row" }, ...cells);
    row.cells = cells;
    this.body.append(row);
    return row;
  }

  /** Brings a row onto the screen. */
  reveal(index) {
    const { rowHeight } = this.options;
    const height = this.element.clientHeight - this.head.offsetHeight;
    const top = index * rowHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + rowHeight > this.element.scrollTop + height) this.element.scrollTop = top + rowHeight - height;
  }

  focus(row = this.active.row, column = this.active.column) {
    if (this.items.length === 0) return;
    this.active = {
      row: Math.max(0, Math.min(row, this.items.length - 1)),
      column: Math.max(0, Math.min(column, this.options.columns.length - 1)),
    };
    this.reveal(this.active.row);
    this.draw();
    this.rows.get(this.active.row)?.cells[this.active.column].focus({ preventScroll: true });
  }

  key(event) {
    if (event.altKey || event.metaKey) return;
    const { row, column } = this.active;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.rowHeight) - 2);
    const last = this.items.length - 1;
    const end = this.options.columns.length - 1;
    const moves = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
      PageDown: [row + page, column], PageUp: [row - page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0], End: event.ctrlKey ? [last, end] : [row, end],
    };
    if (event.key === "Enter" || event.key === " ") {
      if (!this.body.contains(event.target) || !this.items[row]) return;
      this.options.open(this.items[row]);
    } else if (moves[event.key]) {
      this.focus(...moves[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  }

  click(event) {
    const row = event.target.closest(".grid-row");
    if (!row || !this.body.contains(row)) return;
    const cell = event.target.closest(".cell");
    this.active = { row: Number(row.dataset.index), column: Math.max(0, row.cells.indexOf(cell)) };
    this.draw();
    this.options.open(this.items[this.active.row]);
  }
}
