/** Which rows of a long table one sees, when each has its own height. Pure. */
export interface Span {
  /** The first row to draw, and the one after the last. */
  from: number;
  to: number;
  /** How much room the rows before and after them take. */
  above: number;
  below: number;
}

/** Rows between `top` and `bottom`, measured from the first one's upper edge. */
export function spanOf(heights: readonly number[], top: number, bottom: number): Span {
  let at = 0;
  let from = 0;
  while (from < heights.length && at + (heights[from] ?? 0) <= top) {
    at += heights[from] ?? 0;
    from += 1;
  }
  const above = at;
  let to = from;
  while (to < heights.length && at < bottom) {
    at += heights[to] ?? 0;
    to += 1;
  }
  let below = 0;
  for (let place = to; place < heights.length; place++) below += heights[place] ?? 0;
  return { from, to, above, below };
}
