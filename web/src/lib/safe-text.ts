/**
 * What may be shown of untrusted text: which addresses become links, which images are loaded, and which characters are
 * taken out because they make a text read as something that it is not.
 */
// Characters that turn the direction of everything after them: `txt.exe` can be made to read as `exe.txt`.
const DIRECTION_MARKS = /[\u202A-\u202E\u2066-\u2069]/g;

/** Prose: without them. */
export const safeProse = (text: string): string => text.replaceAll(DIRECTION_MARKS, '');

/** Code, names, data: with their numbers in their place, for there every character counts. */
export const safeExact = (text: string): string =>
  text.replaceAll(DIRECTION_MARKS, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase()}⟩`);

export interface LinkTarget {
  href: string;
  /** Who would be asked: a host, or a mail address. */
  host: string;
}

/**
 * An address that may be a link, else nothing. Only whole ones: what a relative one means here, its writer cannot
 * know.
 */
export function safeLink(given: string): LinkTarget | undefined {
  const url = parseUrl(given.trim());
  if (!url) return undefined;
  if (url.protocol === 'mailto:') return { href: url.href, host: safeProse(url.pathname) };
  return (url.protocol === 'https:' || url.protocol === 'http:') && url.host
    ? { href: url.href, host: url.host }
    : undefined;
}

function parseUrl(given: string): URL | undefined {
  try {
    return given.length <= 4000 ? new URL(given) : undefined;
  } catch {
    return undefined;
  }
}

/** Do the words of a link already say where it leads? */
export function namesHost(words: string, { href, host }: LinkTarget): boolean {
  const said = words.trim();
  if (said === host || said === href) return true;
  return (parseUrl(said) ?? parseUrl(`https://${said}`))?.host === host && !/[\s@]/.test(said);
}

/** An image that stands in the text itself. Nothing else may be loaded: asking for it would tell someone. */
export const isInlineImage = (url: string): boolean => /^data:image\/(?:png|jpeg|gif|webp);base64,[\w+/=]+$/.test(url);

/** A file of this server, as its path. */
export const isStoredFile = (url: string): boolean => /^\/api\/files\/file_[0-9a-z]{1,64}$/.test(url);

const NAMED_ENTITIES: Record<string, string> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00A0',
  copy: '©',
  reg: '®',
  trade: '™',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  laquo: '«',
  raquo: '»',
  bull: '•',
  middot: '·',
  times: '×',
  divide: '÷',
  deg: '°',
  plusmn: '±',
  euro: '€',
  pound: '£',
  yen: '¥',
  cent: '¢',
  sect: '§',
  para: '¶',
  larr: '←',
  rarr: '→',
  uarr: '↑',
  darr: '↓',
  le: '≤',
  ge: '≥',
  ne: '≠',
  infin: '∞',
};

/** The usual character references as the characters they name. */
export const decodeEntities = (text: string): string =>
  text.includes('&')
    ? text.replaceAll(/&(\w{2,8});/g, (whole, name: string) =>
        Object.hasOwn(NAMED_ENTITIES, name) ? (NAMED_ENTITIES[name] ?? whole) : whole,
      )
    : text;
