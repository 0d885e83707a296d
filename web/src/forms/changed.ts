/** What differs between two texts, as one piece: the rest of an editor keeps its caret, its colours and its place. Pure. */
export function changed(before: string, now: string): { from: number; to: number; insert: string } {
  const shorter = Math.min(before.length, now.length);
  let from = 0;
  while (from < shorter && before[from] === now[from]) from += 1;
  let back = 0;
  while (back < shorter - from && before[before.length - 1 - back] === now[now.length - 1 - back]) back += 1;
  return { from, to: before.length - back, insert: now.slice(from, now.length - back) };
}
