/**
 * Sanitizing of untrusted text: which URLs become links, which images load, and which characters are removed because
 * they disguise text.
 */
// Direction overrides: `txt.exe` can be made to read as `exe.txt`.
const DIRECTION_MARKS = /[\u202A-\u202E\u2066-\u2069]/g;

/** For prose: removes direction marks. */
export const safeProse = (text: string): string => text.replaceAll(DIRECTION_MARKS, '');

/** For code, names and data: shows direction marks as code points. */
export const safeExact = (text: string): string =>
  text.replaceAll(DIRECTION_MARKS, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase()}⟩`);

export interface LinkTarget {
  href: string;
  /** Host, or mail address. */
  host: string;
}

/** A link for an absolute http, https or mailto URL; undefined for anything else. */
export function safeLink(rawUrl: string): LinkTarget | undefined {
  const url = parseUrl(rawUrl.trim());
  if (!url) return undefined;
  if (url.protocol === 'mailto:') return { href: url.href, host: safeProse(url.pathname) };
  return (url.protocol === 'https:' || url.protocol === 'http:') && url.host
    ? { href: url.href, host: url.host }
    : undefined;
}

function parseUrl(rawUrl: string): URL | undefined {
  try {
    return rawUrl.length <= 4000 ? new URL(rawUrl) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the label of a link already names its host. */
export function namesHost(linkText: string, { href, host }: LinkTarget): boolean {
  const label = linkText.trim();
  if (label === host || label === href) return true;
  return (parseUrl(label) ?? parseUrl(`https://${label}`))?.host === host && !/[\s@]/.test(label);
}

/** Whether the URL is an inline image. Nothing else may load: the request would reveal the reader. */
export const isInlineImage = (url: string): boolean => /^data:image\/(?:png|jpeg|gif|webp);base64,[\w+/=]+$/.test(url);

/** Whether the URL is the path of a file on this server. */
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

/** Replace common character references. */
export const decodeEntities = (text: string): string =>
  text.includes('&')
    ? text.replaceAll(/&(\w{2,8});/g, (entity, name: string) =>
        Object.hasOwn(NAMED_ENTITIES, name) ? (NAMED_ENTITIES[name] ?? entity) : entity,
      )
    : text;
