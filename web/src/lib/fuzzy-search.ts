/** Search titles by words. */
/** Items that contain all words; matches at the start of a word come first. */
export function searchByTitle<T extends { title: string; more?: string }>(
  text: string,
  items: readonly T[],
  limit = 50,
): T[] {
  const words = normalizeText(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, limit);
  const scored = items.flatMap((item) => {
    const title = normalizeText(item.title);
    const all = `${title} ${normalizeText(item.more ?? '')}`;
    if (!words.every((word) => all.includes(word))) return [];
    const begins = words.filter((word) => ` ${title.replaceAll(/[-_./]/g, ' ')}`.includes(` ${word}`)).length;
    return [{ item, begins }];
  });
  return scored
    .toSorted((one, other) => other.begins - one.begins)
    .slice(0, limit)
    .map(({ item }) => item);
}

/** Lower case without diacritics: `e` finds `é`. */
const normalizeText = (text: string): string => text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase();
