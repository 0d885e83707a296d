/** Which titles somebody means who types a few letters of some words. */
/** Those that have all the words, each at the beginning of a word first; otherwise in their order. */
export function searchByTitle<T extends { title: string; more?: string }>(
  text: string,
  items: readonly T[],
  most = 50,
): T[] {
  const words = normalizeText(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, most);
  const scored = items.flatMap((item) => {
    const title = normalizeText(item.title);
    const all = `${title} ${normalizeText(item.more ?? '')}`;
    if (!words.every((word) => all.includes(word))) return [];
    const begins = words.filter((word) => ` ${title.replaceAll(/[-_./]/g, ' ')}`.includes(` ${word}`)).length;
    return [{ item, begins }];
  });
  return scored
    .toSorted((one, other) => other.begins - one.begins)
    .slice(0, most)
    .map(({ item }) => item);
}

/** Without marks and case: `é` is found by `e`. */
const normalizeText = (text: string): string => text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase();
