/** Find the items that contain all words of the text; matches at the start of a word come first. */
export function searchByTitle<T extends { title: string; more?: string }>(
  text: string,
  items: readonly T[],
  limit = 50,
): T[] {
  const words = normalizeText(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, limit);
  const matches = items.flatMap((item) => {
    const title = normalizeText(item.title);
    const searchable = `${title} ${normalizeText(item.more ?? '')}`;
    if (!words.every((word) => searchable.includes(word))) return [];
    const wordStarts = words.filter((word) => ` ${title.replaceAll(/[-_./]/g, ' ')}`.includes(` ${word}`)).length;
    return [{ item, wordStarts }];
  });
  return matches
    .toSorted((one, other) => other.wordStarts - one.wordStarts)
    .slice(0, limit)
    .map(({ item }) => item);
}

/** Lower case without diacritics: `e` finds `é`. */
const normalizeText = (text: string): string => text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase();
