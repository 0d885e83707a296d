/** JSON values as short words, without walking through all of a huge one. */

export const size = (value: object): number => (Array.isArray(value) ? value.length : Object.keys(value).length);

/** The first so many of a list or an object, by name. */
export function entries(value: object, first: number): [string, unknown][] {
  if (Array.isArray(value)) return value.slice(0, first).map((item: unknown, index) => [String(index), item]);
  return Object.keys(value).slice(0, first).map((key) => [key, (value as Record<string, unknown>)[key]]);
}

/** A value on one line, cut to about `length` characters. */
export function summary(value: unknown, length = 80): string {
  const said = short(value, length);
  return said.length > length ? `${said.slice(0, length - 1)}…` : said;
}

function short(value: unknown, left: number): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, left));
  if (typeof value !== 'object' || value === null) return String(value);
  const list = Array.isArray(value);
  const parts: string[] = [];
  let taken = 2;
  for (const [key, item] of entries(value, 20)) {
    if (taken >= left) break;
    const part = list ? short(item, left - taken) : `${key.slice(0, 40)}: ${short(item, left - taken)}`;
    parts.push(part);
    taken += part.length + 2;
  }
  const more = parts.length < size(value) ? ', …' : '';
  return list ? `[${parts.join(', ')}${more}]` : `{${parts.join(', ')}${more}}`;
}

/** The value as indented text; anything that JSON cannot say, as a word. */
export function written(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? String(value);
  } catch {
    return String(value);
  }
}
