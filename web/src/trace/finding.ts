/** Spans that somebody looks for, by their names here and by their texts on the server; in the order of the tree. */
import type { Forest, Twig } from './forest';

/** Those whose name has these letters, or whose id is this. */
export function named({ order }: Pick<Forest, 'order'>, words: string): Set<string> {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return new Set();
  return new Set(order.flatMap(({ id, name }) => (id === wanted || name.toLowerCase().includes(wanted) ? [id] : [])));
}

/** All spans as the whole tree has them, from top to bottom. */
export function inTree({ top }: Pick<Forest, 'top'>): Twig[] {
  const found: Twig[] = [];
  const left = top.toReversed();
  for (let twig = left.pop(); twig; twig = left.pop()) {
    found.push(twig);
    for (let place = twig.children.length - 1; place >= 0; place--) {
      const child = twig.children[place];
      if (child) left.push(child);
    }
  }
  return found;
}

/** The next of those that are wanted, after this one and round; or the one before it. */
export function next(all: readonly Twig[], isWanted: (twig: Twig) => boolean, here: string | null, back = false): string | null {
  const wanted = all.flatMap((twig, place) => (isWanted(twig) ? [place] : []));
  const at = all.findIndex(({ id }) => id === here);
  const place = back ? (wanted.findLast((one) => one < at) ?? wanted.at(-1)) : (wanted.find((one) => one > at) ?? wanted[0]);
  return place === undefined ? null : (all[place]?.id ?? null);
}
