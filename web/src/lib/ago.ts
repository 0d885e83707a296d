/** How long ago something was, as short as a list wants it: `now`, `5 min`, `3 h`, `2 d`, then the day. */
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function ago(at: string, now: number = Date.now()): string {
  const then = Date.parse(at);
  const passed = now - then;
  if (Number.isNaN(passed)) return '';
  if (passed < MINUTE) return 'now';
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  if (passed < 7 * DAY) return `${Math.floor(passed / DAY)} d`;
  const sameYear = new Date(then).getFullYear() === new Date(now).getFullYear();
  return new Date(then).toLocaleDateString('en', { day: 'numeric', month: 'short', ...(sameYear ? {} : { year: 'numeric' }) });
}

/** The same inside a sentence: `just now`, `5 min ago`, `on Nov 1`. */
export function since(at: string, now: number = Date.now()): string {
  const short = ago(at, now);
  if (short === 'now') return 'just now';
  return /^\d+ /.test(short) ? `${short} ago` : `on ${short}`;
}

/** The moment in full, for titles and tables. */
export const moment = (at: string): string => new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
